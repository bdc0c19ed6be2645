set xlabel 'bucket_cap_mb (MiB)'
set ylabel 'exposed communication of a step (µs)'
set logscale x 2
set xrange [*:*] noextend
set yrange [0:*]
set offsets graph 0.02, graph 0.02, graph 0.04, 0
us(i, name) = column('world') == world[i] && strcol('scheme') eq scheme[i] ? column(name) / 1e3 : NaN
plot for [i=1:|world|] csv using 'bucket_cap_mb':(us(i, 'exposed_ns')):xtic(strcol('bucket_cap_mb')) \
       with linespoints linecolor rgb colour[i] pointtype marker[i] linewidth 2.5 title sprintf('%s, %d ranks', scheme[i], world[i]), \
     for [i=1:|world|] csv using 'bucket_cap_mb':(us(i, 'first_exposed_ns')) with lines \
       linecolor rgb colour[i] linewidth 2 dashtype (12,6) notitle
