"""Policies about order and ownership as pure functions and state machines; time is an argument."""
