"""``consumeMode=pop``: the driver pops and holds, executors read what was popped."""
