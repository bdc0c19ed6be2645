# Colours are dims.  The curve of an earlier provider is wider, so that it shows around one on top of it.
set xlabel 'sequence length (tokens), batch 1'
set ylabel 'speed-up over '.first
eval sizes_on_x
set yrange [0:*]
speedup(p, d) = column('dim') == dim[d] ? column(first.' (us)') / column(provider[p].' (us)') : NaN
size(p) = 1 + |provider| - p
plot for [p=1:|provider|] for [d=1:|dim|] csv using 'seq_len':(speedup(p, d)) smooth unique \
       with linespoints linecolor rgb colour[1 + (d - 1) % |colour|] + (p < |provider| ? 0xa0000000 : 0) pointtype marker[1 + (d - 1) % |marker|] \
       linewidth 5 * size(p) - 2.5 pointsize 0.7 * size(p) title sprintf('%s, dim %d', provider[p], dim[d]), \
     1 with lines linecolor rgb bound linewidth 2 dashtype (12,6) title first
