"""The inside of the sink: columns, values, identity, tasks and commits."""
