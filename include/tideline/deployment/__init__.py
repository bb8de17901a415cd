"""What a deployment needs before its first run: the jars of Spark, and logins in Postgres. And what a checkout's commands ask of its local stack."""
