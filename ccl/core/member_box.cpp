#include <algorithm>
#include <utility>
#include <vector>

#include "ccl/core/plan.h"

namespace kernbench::ccl {

Branch MemberBox::Dimension::branch(int at, int target, bool ties_ahead) const {
  if (!joins_all) return row.branch(at, target, row.nearest_ahead(target, ties_ahead));
  if (at != target) return {1, target, {}};
  Branch branch;
  for (int i = 1; i < size(); ++i) branch.outer.push_back((at + i) % size());
  return branch;
}

MemberBox::MemberBox(std::vector<Dimension> dimensions,
                     const std::vector<std::vector<int>>& places) {
  std::vector<int> indices(places.size(), 0);
  int count = 1;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (dimensions[i].size() == 1) continue;
    for (std::size_t member = 0; member < places.size(); ++member) {
      indices[member] += count * places[member][i];
    }
    count *= dimensions[i].size();
    dimensions_.push_back(std::move(dimensions[i]));
  }
  if (static_cast<std::size_t>(count) != places.size()) return;
  members_.resize(places.size());
  for (std::size_t member = 0; member < places.size(); ++member) {
    members_[static_cast<std::size_t>(indices[member])] = static_cast<int>(member);
  }
  indices_ = std::move(indices);
}

int MemberBox::stride(int dimension) const {
  int stride = 1;
  for (int i = 0; i < dimension; ++i) stride *= this->dimension(i).size();
  return stride;
}

int MemberBox::place_of(int member, int dimension) const {
  return indices_[static_cast<std::size_t>(member)] / stride(dimension) %
         this->dimension(dimension).size();
}

int MemberBox::with_place(int member, int dimension, int place) const {
  const int index = indices_[static_cast<std::size_t>(member)] +
                    (place - place_of(member, dimension)) * stride(dimension);
  return members_[static_cast<std::size_t>(index)];
}

Row MemberBox::line(int member, int dimension) const {
  std::vector<int> members;
  for (int place = 0; place < this->dimension(dimension).size(); ++place) {
    members.push_back(with_place(member, dimension, place));
  }
  return {std::move(members), this->dimension(dimension).row.wraps()};
}

std::vector<Row> MemberBox::lines() const {
  std::vector<Row> lines;
  for (int i = 0; i < dimension_count(); ++i) {
    for (const int member : members_) {
      if (place_of(member, i) == 0) lines.push_back(line(member, i));
    }
  }
  return lines;
}

std::vector<Row> MemberBox::lines_through(int member) const {
  std::vector<Row> lines;
  for (int i = 0; i < dimension_count(); ++i) lines.push_back(line(member, i));
  return lines;
}

}  // namespace kernbench::ccl
