"""What each request is answered with. One file per concern; apis.py is the table of all of them."""
