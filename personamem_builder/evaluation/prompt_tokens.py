"""Tokens of prompts that share a history: each message is tokenised once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from personamem_builder.evaluation.chat import PromptRef
from personamem_builder.evaluation.token_paths import TokenPath, Tokens

# Of more than two line breaks the last may belong to what follows.
_AFTER_BLANK_LINE: Final = re.compile(r"(?<=[^\n]\n\n)(?=\S)")


class PromptTokenizer:
    """Tokenises rendered prompts piece by piece.

    A special token ends what a tokenizer may merge, so a prompt is cut before each special token (plain text after each
    blank line), and each distinct piece is tokenised once while its group of prompts is worked on. That the pieces'
    tokens are the prompt's tokens is not taken for granted: they are compared with those of the whole prompt for the
    first prompt of each group, which should be its longest, and for each that has more pieces than one compared
    before. If they ever differ, whole prompts are tokenised from then on.

    The model's own `encode` tokenises a whole prompt, and `render` makes its text.
    """

    def __init__(self, tokenizer: Any, encode: Callable[[str], list[int]], render: Callable[[PromptRef], str]) -> None:
        self._tokenizer = tokenizer
        self._encode = encode
        self._render = render
        # Tokens that take the white space around them do not end what is before them.
        greedy = {
            token.content
            for token in tokenizer.added_tokens_decoder.values()
            if any(getattr(token, flag, False) for flag in ("lstrip", "rstrip", "single_word"))
        }
        special = sorted({*tokenizer.all_special_tokens} - greedy - {""}, key=len, reverse=True)
        self._blank_lines = not greedy
        self._special = re.compile(f"(?=(?:{'|'.join(map(re.escape, special))}))") if special else None
        self._whole = False
        self._head: Tokens = np.empty(0, np.int32)
        self._group = ""
        self._pieces: dict[str, Tokens] = {}
        self._verified = 0
        self._last: tuple[str, TokenPath, str] | None = None

    def encode(self, ref: PromptRef) -> TokenPath:
        """Return the tokens of a prompt."""
        return self._prompt(ref)[0]

    def encode_pair(self, ref: PromptRef, continuation: str) -> tuple[TokenPath, Tokens]:
        """Return the tokens of a prompt, and those that a continuation adds to them.

        As in lm-eval, these are what is left of the tokens of both together after as many as the prompt has alone.
        """
        path, tail = self._prompt(ref)
        # The last piece is all that the continuation can merge with; without pieces it is the whole prompt.
        if self._whole:
            return path, np.asarray(self._encode(tail + continuation)[path.length :], np.int32)
        return path, np.asarray(self._encode_piece(tail + continuation)[len(self._pieces[tail]) :], np.int32)

    def _prompt(self, ref: PromptRef) -> tuple[TokenPath, str]:
        """Return a prompt's tokens, and the text of its last piece."""
        if self._last is None or self._last[0] != ref:
            self._last = (str(ref), *self._tokenise(ref))
        return self._last[1:]

    def _tokenise(self, ref: PromptRef) -> tuple[TokenPath, str]:
        text = self._render(ref)
        if ref.group != self._group:
            self._group, self._pieces, self._verified = ref.group, {}, 0
        if not self._whole:
            pieces = self._pieces_of(text)
            for piece in pieces:
                if piece not in self._pieces:
                    self._pieces[piece] = np.asarray(self._encode_piece(piece), np.int32)
            path = TokenPath.of([self._head, *(self._pieces[piece] for piece in pieces)])
            if len(pieces) <= self._verified:
                return path, pieces[-1]
            whole = np.asarray(self._encode(text), np.int32)
            added = len(whole) - (path.length - len(self._head))
            if added >= 0 and np.array_equal(path.slice(len(self._head), path.length), whole[added:]):
                # What a tokenizer puts in front of a prompt, such as a token for its beginning, is the same for all.
                self._head, self._verified = whole[:added], len(pieces)
                return TokenPath.of([self._head, *(self._pieces[piece] for piece in pieces)]), pieces[-1]
            self._whole = True
        return TokenPath.of([np.asarray(self._encode(text), np.int32)]), text

    def _pieces_of(self, text: str) -> list[str]:
        pieces = [piece for piece in self._special.split(text) if piece] if self._special else [text]
        return _AFTER_BLANK_LINE.split(text) if len(pieces) == 1 and self._blank_lines else pieces

    def _encode_piece(self, piece: str) -> list[int]:
        return self._tokenizer.encode(piece, add_special_tokens=False)  # type: ignore[no-any-return]
