#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far a server keeps to the OpenAI protocol: one line a check, with the official client and, for what that hides,
raw HTTP.

    probe.py BASE_URL MODEL [--json FILE]        BASE_URL as http://127.0.0.1:8080/v1

It knows the protocol, not the model: it compares texts with each other, never with an expected one. Always exits 0 once
every check has run; which of them have to pass is up to who compares the files.
"""

import argparse
import concurrent.futures
import json

import httpx
import openai

PROMPT = "Write one sentence about the sea."
BEGINNING = "Once upon a time, in a village by the sea,"  # for plain completions: instructions may end at once
LONG_PROMPT = " ".join(f"Item {number} costs {number * 7 % 100} coins." for number in range(150)) + " Which is cheapest?"
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


class Probe:
    """A server and short ways to ask it."""

    def __init__(self, url, model):
        self.url = url.rstrip("/")
        self.model = model
        # A connection for each request: servers close idle ones whenever they like.
        close = {"Connection": "close"}
        self.client = openai.OpenAI(base_url=self.url, api_key="none", max_retries=0, timeout=600, default_headers=close)
        self.http = httpx.Client(timeout=600, headers=close)

    def chat(self, prompt=PROMPT, **options):
        options = {"temperature": 0, "max_tokens": 16, **options}
        return self.client.chat.completions.create(
            model=self.model, messages=[{"role": "user", "content": prompt}], **options)

    def complete(self, prompt=BEGINNING, **options):
        options = {"temperature": 0, "max_tokens": 16, **options}
        return self.client.completions.create(model=self.model, prompt=prompt, **options)

    def post(self, path, **options):
        return self.http.post(self.url + path, **options)

    def body(self, **options):
        return {"model": self.model, "messages": [{"role": "user", "content": PROMPT}], "temperature": 0,
                "max_tokens": 8, **options}


def text_of(answer):
    choice = answer.choices[0]
    return choice.message.content if hasattr(choice, "message") else choice.text


def streamed(chunks):
    """The text of streamed chunks of either kind."""
    parts = []
    for chunk in chunks:
        for choice in chunk.choices:
            part = choice.delta.content if hasattr(choice, "delta") else choice.text
            parts.append(part or "")
    return "".join(parts)


def check_usage(usage):
    expect(usage is not None, "no usage")
    expect(usage.prompt_tokens > 0 and usage.completion_tokens > 0, f"usage is {usage}")
    expect(usage.prompt_tokens + usage.completion_tokens == usage.total_tokens, f"usage does not add up: {usage}")


def check_error(response, status):
    expect(response.status_code == status, f"status {response.status_code}, not {status}")
    error = response.json().get("error")
    expect(isinstance(error, dict), f"no error object in {response.text[:200]}")
    for field in ("message", "type", "param", "code"):
        expect(field in error, f"error has no {field}: {error}")


@check
def models_are_listed(probe):
    names = [model.id for model in probe.client.models.list()]
    expect(probe.model in names, f"{probe.model} is not among {names}")


@check
def one_model_is_described(probe):
    expect(probe.client.models.retrieve(probe.model).id == probe.model, "another model came back")


@check
def chat_has_the_documented_shape(probe):
    answer = probe.chat()
    expect(answer.object == "chat.completion", f"object is {answer.object}")
    expect(answer.id and answer.created > 0 and answer.model, "id, created or model is missing")
    expect(len(answer.choices) == 1 and answer.choices[0].index == 0, "not one choice with index 0")
    expect(answer.choices[0].message.role == "assistant", f"role is {answer.choices[0].message.role}")
    expect(answer.choices[0].message.content, "no content")
    check_usage(answer.usage)


@check
def completion_has_the_documented_shape(probe):
    answer = probe.complete()
    expect(answer.object == "text_completion", f"object is {answer.object}")
    expect(answer.id and answer.created > 0 and answer.model, "id, created or model is missing")
    expect(len(answer.choices) == 1 and answer.choices[0].text, "not one choice with text")
    check_usage(answer.usage)


@check
def a_streamed_chat_has_one_id_one_role_and_one_finish_reason(probe):
    chunks = list(probe.chat(stream=True))
    expect({chunk.object for chunk in chunks} == {"chat.completion.chunk"}, "a chunk of another object")
    expect(len({chunk.id for chunk in chunks}) == 1, "more than one id")
    choices = [choice for chunk in chunks for choice in chunk.choices]
    roles = [choice.delta.role for choice in choices if choice.delta.role]
    expect(roles == ["assistant"], f"roles are {roles}")
    reasons = [choice.finish_reason for choice in choices if choice.finish_reason]
    expect(len(reasons) == 1 and choices[-1].finish_reason, f"finish reasons are {reasons}")


@check
def a_streamed_completion_has_one_id_and_one_finish_reason(probe):
    chunks = list(probe.complete(stream=True))
    expect({chunk.object for chunk in chunks} == {"text_completion"}, "a chunk of another object")
    expect(len({chunk.id for chunk in chunks}) == 1, "more than one id")
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    expect(len(reasons) == 1, f"finish reasons are {reasons}")


def check_framing(response):
    expect(response.status_code == 200, f"status {response.status_code}")
    kind = response.headers.get("content-type", "")
    expect(kind.startswith("text/event-stream"), f"content type is {kind}")
    events = response.content.decode("utf-8").split("\n\n")
    expect(events[-1] == "", "the last event is not ended by an empty line")
    expect(all(event.startswith("data: ") and "\n" not in event for event in events[:-1]), "not one data line an event")
    expect(events[-2] == "data: [DONE]", f"ends with {events[-2]!r}")
    expect(events.count("data: [DONE]") == 1, "more than one [DONE]")
    for event in events[:-2]:
        json.loads(event[len("data: "):])


@check
def chat_events_are_framed(probe):
    check_framing(probe.post("/chat/completions", json=probe.body(stream=True)))


@check
def completion_events_are_framed(probe):
    body = {"model": probe.model, "prompt": BEGINNING, "temperature": 0, "max_tokens": 8, "stream": True}
    check_framing(probe.post("/completions", json=body))


@check
def a_streamed_chat_says_the_same(probe):
    expect(streamed(probe.chat(stream=True)) == text_of(probe.chat()), "streamed text differs")


@check
def a_streamed_completion_says_the_same(probe):
    expect(streamed(probe.complete(stream=True)) == text_of(probe.complete()), "streamed text differs")


@check
def a_stream_brings_usage_on_request_only(probe):
    with_usage = list(probe.chat(stream=True, stream_options={"include_usage": True}))
    expect(not with_usage[-1].choices, "the usage chunk has choices")
    check_usage(with_usage[-1].usage)
    without = list(probe.chat(stream=True))
    expect(all(chunk.usage is None for chunk in without), "usage that was not asked for")


@check
def usage_counts_what_was_generated(probe):
    for limit in (1, 7):
        usage = probe.chat(max_tokens=limit).usage
        expect(usage.completion_tokens == limit, f"{usage.completion_tokens} tokens for max_tokens {limit}")


@check
def the_limit_of_tokens_is_the_finish_reason(probe):
    expect(probe.chat(max_tokens=3).choices[0].finish_reason == "length", "chat: finish_reason is not length")
    expect(probe.complete(max_tokens=3).choices[0].finish_reason == "length", "completion: not length")


@check
def a_stop_string_ends_the_text_before_it(probe):
    whole = text_of(probe.complete(max_tokens=24))
    stop = whole[len(whole) // 2:len(whole) // 2 + 3]
    for answer in (probe.complete(max_tokens=24, stop=stop), probe.complete(max_tokens=24, stop=["no such", stop])):
        expect(text_of(answer) == whole[:whole.index(stop)], "the text does not end before the stop string")
        expect(answer.choices[0].finish_reason == "stop", f"finish_reason is {answer.choices[0].finish_reason}")


@check
def a_stop_string_ends_a_stream_as_well(probe):
    whole = text_of(probe.complete(max_tokens=24))
    stop = whole[len(whole) // 2:len(whole) // 2 + 3]
    text = streamed(probe.complete(max_tokens=24, stop=stop, stream=True))
    expect(text == whole[:whole.index(stop)], "the streamed text does not end before the stop string")


@check
def several_choices_are_numbered(probe):
    answer = probe.chat(n=2, temperature=1, max_tokens=6)
    expect(sorted(choice.index for choice in answer.choices) == [0, 1], "n=2 does not give choices 0 and 1")


@check
def a_seed_repeats_and_another_does_not(probe):
    options = {"temperature": 1.5, "max_tokens": 20}
    texts = [text_of(probe.chat(seed=seed, **options)) for seed in (7, 7, 8, 9)]
    expect(texts[0] == texts[1], "the same seed gave two texts")
    expect(len(set(texts)) > 1, "three seeds gave one text")


@check
def temperature_zero_repeats(probe):
    expect(len({text_of(probe.chat(max_tokens=24)) for _ in range(4)}) == 1, "four greedy answers differ")


@check
def chat_logprobs_spell_the_text(probe):
    choice = probe.chat(logprobs=True, top_logprobs=3).choices[0]
    content = choice.logprobs.content
    expect("".join(entry.token for entry in content) == choice.message.content, "tokens do not spell the text")
    for entry in content:
        expect(entry.logprob <= 0, f"a log-probability of {entry.logprob}")
        expect(len(entry.top_logprobs) == 3, f"{len(entry.top_logprobs)} of 3 top log-probabilities")
        best = max(top.logprob for top in entry.top_logprobs)
        expect(entry.logprob >= best - 1e-3, "greedy did not take the most probable token")


@check
def streamed_logprobs_spell_the_text(probe):
    chunks = list(probe.chat(logprobs=True, top_logprobs=1, stream=True))
    entries = [entry for chunk in chunks for choice in chunk.choices if choice.logprobs
               for entry in choice.logprobs.content or []]
    expect("".join(entry.token for entry in entries) == streamed(chunks), "tokens do not spell the text")


@check
def a_conversation_is_taken_whole(probe):
    messages = [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "Name a colour."},
                {"role": "assistant", "content": "Red."}, {"role": "user", "content": "Another one."}]
    whole, last = [probe.client.chat.completions.create(model=probe.model, messages=turns, max_tokens=8, temperature=0)
                   for turns in (messages, messages[:1] + messages[3:])]
    expect(whole.usage.prompt_tokens > last.usage.prompt_tokens + 5, "earlier turns were not read")


@check
def a_long_prompt_is_answered(probe):
    answer = probe.chat(LONG_PROMPT, max_tokens=8)
    expect(answer.usage.prompt_tokens > 1000, f"{answer.usage.prompt_tokens} prompt tokens")
    expect(answer.usage.completion_tokens == 8 or answer.choices[0].finish_reason == "stop", "cut short")


@check
def text_is_utf8_whatever_the_tokens(probe):
    prompt = "Repeat: \u00e9\u00e8\u00fc \u4f60\u597d \U0001f600"
    body = probe.body(messages=[{"role": "user", "content": prompt}], stream=True, temperature=1.5, seed=3)
    probe.post("/chat/completions", json=body).content.decode("utf-8")


@check
def questions_at_once_get_the_answers_they_get_alone(probe):
    questions = ["Name a fruit.", "Count to five.", "What is rain?", "Say hello."]
    # One token: an engine may multiply larger batches by other kernels, and what is nearly a tie then turns.
    alone = [text_of(probe.chat(question, max_tokens=1)) for question in questions]
    with concurrent.futures.ThreadPoolExecutor(len(questions)) as pool:
        together = list(pool.map(lambda question: text_of(probe.chat(question, max_tokens=1)), questions))
    expect(alone == together, f"alone {alone}, together {together}")


@check
def missing_messages_are_an_error(probe):
    check_error(probe.post("/chat/completions", json={"model": probe.model}), 400)


@check
def a_wrong_type_is_an_error(probe):
    response = probe.post("/chat/completions", json=probe.body(messages="hello"))
    expect(response.status_code in (400, 422), f"status {response.status_code}")
    expect("message" in response.json().get("error", {}), f"no error object in {response.text[:200]}")


@check
def invalid_json_is_an_error(probe):
    response = probe.post("/chat/completions", content=b"{", headers={"content-type": "application/json"})
    check_error(response, 400)


@check
def an_unknown_model_is_an_error(probe):
    check_error(probe.post("/chat/completions", json=probe.body(model="no-such-model")), 404)


@check
def an_unknown_path_is_an_error(probe):
    response = probe.post("/no-such-path", json={})
    expect(response.status_code == 404, f"status {response.status_code}")


@check
def the_server_survives_a_client_that_leaves(probe):
    with probe.http.stream("POST", probe.url + "/chat/completions", json=probe.body(stream=True, max_tokens=200)) as stream:
        next(stream.iter_raw())
    expect(text_of(probe.chat(max_tokens=4)), "no answer after a client left")


@check
def the_server_is_alive_at_the_end(probe):
    expect(text_of(probe.chat(max_tokens=4)), "no answer")


def run(url, model):
    """Name of each check to "" or why it failed."""
    probe = Probe(url, model)
    results = {}
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        try:
            function(probe)
            results[name] = ""
        except Exception as error:  # pylint: disable=broad-except
            results[name] = f"{type(error).__name__}: {error}"[:300]
        print(f"{'FAIL' if results[name] else 'pass'}  {name}  {results[name]}".rstrip(), flush=True)
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    results = run(arguments.url, arguments.model)
    failed = sum(1 for reason in results.values() if reason)
    print(f"{len(results) - failed} checks pass, {failed} fail")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
