set terminal pngcairo size 1800,1180 font 'sans-serif,16' noenhanced fontscale 1.5 linewidth 2 pointscale 3 dashlength 2
set key spacing 1.2
set output png
replot
set output
