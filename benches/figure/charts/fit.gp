# Simulated over published times of fitted machines: a colour for each collective.
set xlabel 'bytes'
set ylabel 'simulated / published'
stats csv using (column('bytes')) nooutput
size_step = STATS_max / STATS_min > 2**15 ? 2 : 1
eval sizes_on_x
set yrange [0:*]
ratio(i, name) = strcol('collective') eq collective[i] ? column(name) / column('published_us') : NaN
plot 1 with lines linecolor rgb bound linewidth 2 notitle, \
     for [i=1:|collective|] csv using 'bytes':(ratio(i, 'given_us')) with points \
       linecolor rgb colour[1 + (i - 1) % |colour|] pointtype 2 pointsize 0.6 notitle, \
     for [i=1:|collective|] csv using 'bytes':(ratio(i, 'simulated_us')) with points \
       linecolor rgb colour[1 + (i - 1) % |colour|] pointtype marker[1 + (i - 1) % |marker|] title collective[i]
