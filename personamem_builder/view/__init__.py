"""A page to read a benchmark: histories as chats, questions at their point, answers beside."""
