"""The web API. `app.py` shows the whole of it on one screen."""
