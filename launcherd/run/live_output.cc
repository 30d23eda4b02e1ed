#include "launcherd/run/live_output.h"

#include <set>

namespace muster::launcherd::inline run {
namespace {

constexpr std::string_view kLeft = "(left the job) ";

// Puts kLeft before each line, and ends the last one.
std::string marked(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\n\r");
    const std::size_t size = end == std::string_view::npos ? bytes.size() : end + 1;
    text.append(kLeft).append(bytes.substr(0, size));
    if (end == std::string_view::npos) text += '\n';
    bytes.remove_prefix(size);
  }
  return text;
}

}  // namespace

void LiveOutput::add_ranks(const std::map<int, int>& ranks) {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, rank] : ranks) labels_[number] = {.rank = rank};
}

void LiveOutput::set_ranks(const std::map<int, int>& ranks) {
  const std::lock_guard lock(mutex_);
  std::set<int> taken;
  for (const auto& [number, rank] : ranks) taken.insert(rank);
  for (auto& [number, label] : labels_) {
    if (!ranks.contains(number) && taken.contains(label.rank)) label.has_left = true;
  }
  for (const auto& [number, rank] : ranks) labels_[number] = {.rank = rank};
}

LiveOutput::Label LiveOutput::label_of(int number) const {
  const std::lock_guard lock(mutex_);
  const auto found = labels_.find(number);
  return found == labels_.end() ? Label{.rank = number} : found->second;
}

base::Status LiveOutput::write(int number, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) {
  const Label label = label_of(number);
  if (!label.has_left) return ForwardingSink::write(label.rank, stream, bytes, flags);
  return ForwardingSink::write(label.rank, stream, marked(bytes), 0);
}

base::Status LiveOutput::end_rank(int number) {
  const Label label = label_of(number);
  return label.has_left ? base::ok_status() : ForwardingSink::end_rank(label.rank);
}

}  // namespace muster::launcherd::run
