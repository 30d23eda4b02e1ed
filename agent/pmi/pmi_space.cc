#include "agent/pmi/pmi_space.h"

#include <cstdint>
#include <utility>

#include "base/little_endian.h"
#include "base/strings.h"

namespace muster::agent::inline pmi {
namespace {

// A blob is a sequence of keys and values. Each is its size as a u32, then its bytes.
void add_text(std::string_view text, std::string& blob) {
  char size[4];
  base::put_little_endian(size, static_cast<std::uint32_t>(text.size()));
  blob.append(size, sizeof size);
  blob.append(text);
}

bool read_text(std::string_view& blob, std::string_view& text) {
  if (blob.size() < 4) return false;
  const auto size = base::get_little_endian<std::uint32_t>(blob.data());
  if (blob.size() - 4 < size) return false;
  text = blob.substr(4, size);
  blob.remove_prefix(4 + text.size());
  return true;
}

bool has_room_for(std::string_view key, std::string_view value) {
  return !key.empty() && key.size() <= kMaxPmiKey && value.size() <= kMaxPmiValue;
}

}  // namespace

base::Status PmiSpace::put(std::string_view key, std::string_view value) {
  if (!has_room_for(key, value)) {
    return base::invalid_argument("PMI key '{}' of {} bytes with a value of {}: at most {} and {}",
                                  base::printable(key.substr(0, kMaxPmiKey)), key.size(), value.size(), kMaxPmiKey,
                                  kMaxPmiValue);
  }
  if (put_.size() + key.size() + value.size() + 8 > limits_.max_put_bytes) {
    return base::resource_exhausted("the ranks of a host put more than {} bytes of PMI values", limits_.max_put_bytes);
  }
  MUSTER_RETURN_IF_ERROR(store(key, value));
  add_text(key, put_);
  add_text(value, put_);
  return base::ok_status();
}

base::Status PmiSpace::store(std::string_view key, std::string_view value) {
  const auto found = values_.find(key);
  const std::size_t old = found == values_.end() ? 0 : found->first.size() + found->second.size();
  if (total_bytes_ - old + key.size() + value.size() > limits_.max_total_bytes) {
    return base::resource_exhausted("the job's PMI values are more than {} bytes", limits_.max_total_bytes);
  }
  total_bytes_ = total_bytes_ - old + key.size() + value.size();
  values_.insert_or_assign(std::string(key), std::string(value));
  return base::ok_status();
}

const std::string* PmiSpace::get(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::string PmiSpace::take_blob() {
  return std::exchange(put_, {});
}

base::Status PmiSpace::merge(std::string_view blob) {
  while (!blob.empty()) {
    std::string_view key;
    std::string_view value;
    if (!read_text(blob, key) || !read_text(blob, value) || !has_room_for(key, value)) {
      return base::invalid_argument("the data received from a host are not PMI values");
    }
    MUSTER_RETURN_IF_ERROR(store(key, value));
  }
  return base::ok_status();
}

}  // namespace muster::agent::pmi
