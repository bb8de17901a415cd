"""What commands and the page of Airflow show and do: lists, checks and decisions, each as a `Report`. It knows neither of them."""
