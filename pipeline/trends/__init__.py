"""What is trending: scores, gates, ranking, and who enters and leaves. Pure: columns in and out.

For each closed window of a family, in order: `score` the candidates of each region and of `*`,
`rank` the regions, then `*` with `in_regions`, and send what `transitions` tells. docs/trends.md
says it in plain words.
"""
