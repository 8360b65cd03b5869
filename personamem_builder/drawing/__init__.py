"""Pictures: plain shapes, written as SVG or painted as PNG."""
