// The style of drawings of the machine: colours and sizes.  charts/style.gp has that of charts.

#pragma once

#include <array>
#include <string_view>

namespace kernbench::benches::figure {

// Sizes in pixels.  A figure is printed at half its width, so nothing is small or thin.
inline constexpr double kPageWidth = 900;
inline constexpr double kTitleSize = 20;
inline constexpr double kTextSize = 16;
inline constexpr double kNoteSize = 15;
inline constexpr double kSmallSize = 14;    // in boxes
inline constexpr double kLineHeight = 1.3;  // of the font size
inline constexpr double kThin = 1.5;

inline constexpr std::string_view kFaintInk = "#595959";  // 7:1 on white
inline constexpr std::string_view kPaper = "#ffffff";

// The computations of a pipeline, by the letter of torch's actions.
struct ActionStyle {
  char letter;
  std::string_view colour;
  std::string_view name;
};
inline constexpr std::array kActionStyles = {
    ActionStyle{'F', "#0072b2", "F, forward of a micro-batch"},
    ActionStyle{'B', "#d55e00", "B, backward"}, ActionStyle{'I', "#e69f00", "I, for the input"},
    ActionStyle{'W', "#009e73", "W, for the weights"}};

}  // namespace kernbench::benches::figure
