"""What of the code the tests run, by line and by branch: ``python -m tests.coverage``.

Python with every process that a test starts, Spark's workers among them; Scala by scoverage. With
``--tree`` the tests of another checkout are measured in the same way, so that two versions can be
set side by side with ``--beside``.
"""
