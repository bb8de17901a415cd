"""The numbers of all pipelines for monitoring: `/tideline/metrics` and `tideline metrics` show them, and tasks send them by Airflow's own metrics.

The ledger and the brokers are asked separately, each within a limited time. What one of them does not answer is left out, and a number says so.
"""
