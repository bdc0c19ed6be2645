set xlabel 'ranks (tp), one on each SIP'
set ylabel sprintf('speed-up over tp %d', first_tp)
set logscale xy 2
set xrange [*:*] noextend
set yrange [*:*] noextend
set offsets graph 0.02, graph 0.02, graph 0.04, graph 0.02
plot csv using 'tp':(first_ns / column('step_ns')):xtic(strcol('tp')) with linespoints \
       linecolor rgb colour[1] pointtype marker[1] linewidth 2.5 title 'measured', \
     csv using 'tp':(column('tp') / first_tp) with lines linecolor rgb bound linewidth 2 dashtype (12,6) title 'ideal'
