"""The Spark side: the only package that imports pyspark and uses Spark's words."""
