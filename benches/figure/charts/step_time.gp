set ylabel 'share of the step (%)'
set yrange [0:100]
set xrange [-0.6:steps - 0.4]
unset grid
set grid y linetype 1 linecolor rgb '#dddddd' linewidth 1.5
set xtics scale 0
set style fill solid
set style textbox opaque noborder margins 0.4, 0.2
set boxwidth 0.4
array part[4] = ['compute alone', 'compute and communication', 'communication alone (exposed)', \
  'neither (launches)']
ns(i) = i == 1 ? column('compute_ns') - ns(2) : i == 2 ? column('communication_ns') - column('exposed_ns') : \
  i == 3 ? column('exposed_ns') : column('idle_ns')
percent(i) = 100 * ns(i) / column('step_ns')
upto(i) = i == 0 ? 0 : upto(i - 1) + percent(i)
name(x) = sprintf('tp %d: %.4g µs', column('tp'), column('step_ns') / 1e3)
plot for [i=4:1:-1] csv using 0:(upto(i)):xtic(name(0)) with boxes linecolor rgb colour[i] notitle, \
     for [i=1:4] csv using 0:(percent(i) < 4 ? NaN : upto(i) - percent(i) / 2):(sprintf('%.1f', percent(i))) \
       with labels boxed notitle, \
     for [i=1:4] keyentry with boxes linecolor rgb colour[i] title part[i]
