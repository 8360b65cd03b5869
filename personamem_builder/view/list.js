"use strict";

// A list of which only the visible part is in the document.
//
// Heights are estimated until an item has been shown, then measured. Whatever they turn out to be, the item at the top
// of the view stays where it is.

const MARGIN = 700; // pixels shown above and below the view, so that a fast hand finds text there
const MOST = 160; // items in the document at any time

class VirtualList {
  // `make(index)` gives the element of an item, `estimate(index, width)` its likely height.
  constructor(scroller, make, estimate) {
    this.scroller = scroller;
    this.make = make;
    this.estimate = estimate;
    this.above = document.createElement("div");
    this.rows = document.createElement("div");
    this.below = document.createElement("div");
    this.rows.setAttribute("role", "list");
    scroller.replaceChildren(this.above, this.rows, this.below);
    this.nodes = new Map();
    this.count = 0;
    this.anchor = { index: 0, shift: 0 };
    this.width = 0;
    let asked = false;
    scroller.addEventListener("scroll", () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        this.update(this.atTop());
      });
    });
    new ResizeObserver(() => this.resized()).observe(scroller);
  }

  // Show other items, from the beginning.
  reset(count) {
    this.count = count;
    this.anchor = { index: 0, shift: 0 };
    this.clear();
    this.forget();
    this.update(this.anchor);
  }

  // Items were added at the end.
  grow(count) {
    const known = this.heights;
    this.count = count;
    this.forget();
    this.heights.set(known.subarray(0, Math.min(known.length, count)));
    this.add();
    this.update(this.anchor);
  }

  // Make the elements again.
  refresh() {
    this.clear();
    this.update(this.anchor);
  }

  // Bring an item to the upper part of the view.
  scrollTo(index) {
    this.update({ index, shift: -0.15 * this.scroller.clientHeight });
  }

  // Bring an item into view if it is not there.
  reveal(index) {
    const { scrollTop, clientHeight } = this.scroller;
    if (this.offsets[index] < scrollTop || this.offsets[index + 1] > scrollTop + clientHeight) this.scrollTo(index);
  }

  clear() {
    this.nodes.clear();
    this.rows.replaceChildren();
  }

  forget() {
    this.width = this.scroller.clientWidth;
    this.heights = Float64Array.from({ length: this.count }, (_, i) => this.estimate(i, this.width));
    this.add();
  }

  add() {
    this.offsets = new Float64Array(this.count + 1);
    for (let i = 0; i < this.count; i++) this.offsets[i + 1] = this.offsets[i] + this.heights[i];
  }

  resized() {
    if (this.scroller.clientWidth !== this.width && this.scroller.clientHeight) this.forget();
    this.update(this.anchor);
  }

  // The item that covers a place.
  at(y) {
    let low = 0;
    let high = this.count - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.offsets[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  atTop() {
    const index = this.at(this.scroller.scrollTop);
    return { index, shift: this.scroller.scrollTop - this.offsets[index] };
  }

  update(anchor) {
    this.anchor = anchor;
    const view = this.scroller.clientHeight;
    if (!view) return; // not shown: `resized` comes when it is
    if (!this.count) {
      this.place(0, 0);
      return;
    }
    let top = 0;
    for (let round = 0; round < 10; round++) {
      const last = Math.max(0, this.offsets[this.count] - view);
      top = Math.min(Math.max(0, this.offsets[anchor.index] + anchor.shift), last);
      const first = this.at(top - MARGIN);
      const end = Math.min(this.at(top + view + MARGIN) + 1, first + MOST, this.count);
      this.place(first, end);
      if (!this.measure()) break;
    }
    if (Math.abs(this.scroller.scrollTop - top) > 0.5) this.scroller.scrollTop = top;
  }

  place(first, end) {
    for (const [index, node] of this.nodes) {
      if (index >= first && index < end) continue;
      node.remove();
      this.nodes.delete(index);
    }
    let next = this.rows.firstChild;
    for (let index = first; index < end; index++) {
      const known = this.nodes.get(index);
      if (known) {
        next = known.nextSibling;
        continue;
      }
      const node = this.make(index);
      node.setAttribute("role", "listitem");
      node.setAttribute("aria-setsize", this.count);
      node.setAttribute("aria-posinset", index + 1);
      this.rows.insertBefore(node, next);
      this.nodes.set(index, node);
    }
    this.above.style.height = `${this.offsets[first]}px`;
    this.below.style.height = `${this.offsets[this.count] - this.offsets[end]}px`;
  }

  measure() {
    let changed = false;
    for (const [index, node] of this.nodes) {
      const { height } = node.getBoundingClientRect();
      if (Math.abs(height - this.heights[index]) < 0.1) continue;
      this.heights[index] = height;
      changed = true;
    }
    if (changed) this.add();
    return changed;
  }
}
