"""The bank of phrases: sentences that chats and options of all topics share."""

from __future__ import annotations

from pydantic import Field

from generation.banks.model import BankModel, Template


class Phrases(BankModel):
    """Sentences of the chats.

    Attributes:
        greetings: First words of a session; `{date}`.
        openers: The user's lead into a turn.
        closers: The user's last words in a session.
        farewells: The assistant's reply to them.
        acknowledgements: The assistant's first words after something personal; they restate nothing.
        answer_leads: The assistant's lead into an answer.
        pivots: The user's bridge from what they told to a question.
        stance_like_now: The user has come to like `{item}`.
        stance_dislike_now: The user has come to dislike `{item}`.
        reason_leads: Why something changed; `{reason}`, a first-person clause.
        datings: When a change began, `{when}`; before its reason.
        deeds_of_liking: What somebody did who liked what they had just told of; no verdict.
        deeds_of_disliking: The same of somebody who did not.
        trials: What somebody has tried, `{items}`.
        trial_traces: What shows that somebody has tried `{items}`.
        offers_of_values: The assistant names values side by side, `{names}`, for `{name}`.
        offers_of_items: The assistant names items of a topic side by side, `{names}`; may hold `{label}`.
        reflections: The user's asides, free of preferences.
    """

    greetings: list[Template] = Field(min_length=1)
    openers: list[Template] = Field(min_length=1)
    closers: list[Template] = Field(min_length=1)
    farewells: list[Template] = Field(min_length=1)
    acknowledgements: list[Template] = Field(min_length=1)
    answer_leads: list[Template] = Field(min_length=1)
    pivots: list[Template] = Field(min_length=1)
    stance_like_now: list[Template] = Field(min_length=1)
    stance_dislike_now: list[Template] = Field(min_length=1)
    reason_leads: list[Template] = Field(min_length=1)
    deeds_of_liking: list[Template] = Field(min_length=1)
    deeds_of_disliking: list[Template] = Field(min_length=1)
    trials: list[Template] = Field(min_length=1)
    trial_traces: list[Template] = Field(min_length=1)
    offers_of_values: list[Template] = Field(min_length=1)
    offers_of_items: list[Template] = Field(min_length=1)
    datings: list[Template] = Field(min_length=1)
    reflections: list[Template] = Field(min_length=1)


class StancePair(BankModel):
    """The same words around liking and disliking `{item}`."""

    like: Template
    dislike: Template


class OptionPhrases(BankModel):
    """The words around what the options of a question assert; the four options of a question share them.

    Attributes:
        facts: Recall `{fact}`.
        ideas: Suggest `{item}`.
        stances: Take a stance on `{item}` for granted.
        evolutions: Tell the course of `{name}` in `{steps}`.
        item_evolutions: Tell the course of the view of `{item}` in `{steps}`.
        reasons: Recall `{reason}` for a change of `{name}`.
        item_again: The user wants to change their mind about `{item}` once more.
        evolution_queries: The user asks how their `{name}` has gone.
        item_evolution_queries: The user asks how their view has gone, naming no item.
        recommendations: Recommend `{recommendation}`.
        go_by: The user wants a decision made by what moved them in matters of `{label}`.
        tails: Neutral sentences that may follow any of these, for all four options alike.
    """

    facts: list[Template] = Field(min_length=1)
    ideas: list[Template] = Field(min_length=1)
    stances: list[StancePair] = Field(min_length=1)
    evolutions: list[Template] = Field(min_length=1)
    item_evolutions: list[Template] = Field(min_length=1)
    reasons: list[Template] = Field(min_length=1)
    item_again: list[Template] = Field(min_length=1)
    evolution_queries: list[Template] = Field(min_length=1)
    item_evolution_queries: list[Template] = Field(min_length=1)
    recommendations: list[Template] = Field(min_length=1)
    go_by: list[Template] = Field(min_length=1)
    tails: list[Template] = Field(min_length=1)
