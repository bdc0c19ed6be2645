set xlabel 'arithmetic intensity (FLOP per byte of HBM traffic)'
set ylabel 'rate per PE (TFLOP/s)'
set logscale xy
set xrange [*:*] noextend
set yrange [*:*] noextend
set offsets graph 0.02, graph 0.02, graph 0.03, graph 0.02
set grid x y mx my linetype 1 linecolor rgb '#dddddd' linewidth 1.5, linetype 1 linecolor rgb '#eeeeee' linewidth 1
set samples 1000
of_hbm(i) = 2.0 * column('m') * column('n') * column('k') / column('hbm_bytes')
rate(i) = strcol('on') eq on[i] ? column('tflops') / column('pes') : NaN
roof(intensity, gbs) = intensity * gbs < 1e3 * peak ? intensity * gbs / 1e3 : peak
plot for [r=1:|hbm_gbs|] roof(x, hbm_gbs[r]) with lines linecolor rgb bound linewidth 2 dashtype (12,6) \
       title roof_name[r], \
     for [i=1:|on|] csv using (of_hbm(i)):(rate(i)) with points linewidth 2 \
       linecolor rgb colour[i] pointtype marker[i] title pes[i]
