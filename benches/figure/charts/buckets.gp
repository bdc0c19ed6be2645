set xlabel "time since the step's begin (µs)"
set ylabel 'bucket'
set yrange [*:*] reverse noextend
set ytics 1
set offsets 0, 0, 0.6, 0.6
set style fill solid
unset grid
set grid x linetype 1 linecolor rgb '#dddddd' linewidth 1.5
mine(x) = strcol('scheme') eq scheme && column('world') == world && column('bucket_cap_mb') == cap ? x : NaN
us(name) = column(name) / 1e3
plot csv using (us('ready_ns')):(mine(column('bucket'))):(us('ready_ns')):(us('started_ns')):(column('bucket') - 0.25):(column('bucket') + 0.25) \
       with boxxyerror linecolor rgb '#cccccc' title 'ready', \
     csv using (us('started_ns')):(mine(column('bucket'))):(us('started_ns')):(us('started_ns') + us('hidden_ns')):(column('bucket') - 0.25):(column('bucket') + 0.25) \
       with boxxyerror linecolor rgb colour[3] title 'beside compute (hidden)', \
     csv using (us('started_ns')):(mine(column('bucket'))):(us('started_ns') + us('hidden_ns')):(us('ended_ns')):(column('bucket') - 0.25):(column('bucket') + 0.25) \
       with boxxyerror linecolor rgb colour[2] title 'exposed'
