"""Once per member: a member counts once per counter until taken back."""
