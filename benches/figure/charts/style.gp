# What every figure looks like, in pixels of a page of 900 x 590, of which the PNG is twice as large.
set terminal svg size 900,590 font 'sans-serif,16' noenhanced background '#ffffff'
set output svg
set encoding utf8
set datafile separator comma
set datafile columnheaders
set datafile missing NaN
array colour[7] = [0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9, 0x222222]  # of Okabe and Ito
array marker[7] = [7, 5, 9, 13, 11, 2, 1]
faint = '#595959'
bound = '#767676'
set pointsize 0.75
set border 3 linecolor rgb faint linewidth 1.5
set tics nomirror out scale 0.5
set grid linetype 1 linecolor rgb '#dddddd' linewidth 1.5
set label 1 title at screen 16 / 900., 1 - 34 / 590. font sprintf('sans-serif,%g', title_size)
set label 2 subtitle at screen 16 / 900., 1 - 60 / 590. textcolor rgb faint
set label 3 note at screen 16 / 900., (24 * note_lines - 10) / 590. font 'sans-serif,15' textcolor rgb faint
set key at screen 76 / 900., 1 - (60 + 22 * subtitle_lines) / 590. left top \
  Left reverse width 1 samplen 2.5 maxrows key_rows
set rmargin at screen 1 - 30 / 900.
set bmargin at screen (80 + 24 * note_lines) / 590.
set tmargin at screen 1 - (66 + 22 * subtitle_lines + 24 * key_rows) / 590.

# For an axis over sizes, which are powers of two: "512", "1 Ki"; every power of 2**size_step.
binary(n) = n < 1024 ? sprintf('%d', n) : n < 1048576 ? sprintf('%d Ki', n / 1024) : sprintf('%d Mi', n / 1048576)
size_step = 1
sizes_on_x = "set logscale x 2; set xtics ('1' 1); set for [i=size_step:40:size_step] xtics add (binary(2**i) 2**i); \
  set xrange [*:*] noextend; set offsets graph 0.02, graph 0.02, 0, 0"
