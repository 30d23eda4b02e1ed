// Writes and reads the values of a message between agent and warden: native integers and counted strings.
// Both ends are the same binary, so there are no versions. A message that does not parse is a bug of ours; readers
// return false.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace muster::agent::inline process {

class WireWriter {
 public:
  template <typename T>
  void number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_.append(value);
  }
  void texts(const std::vector<std::string>& values) {
    number(static_cast<std::uint32_t>(values.size()));
    for (const std::string& value : values) text(value);
  }
  template <typename T>
  void numbers(const std::vector<T>& values) {
    number(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) number(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  bool number(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (rest_.size() < sizeof value) return false;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return true;
  }
  bool text(std::string& value) {
    std::uint32_t size = 0;
    if (!number(size) || rest_.size() < size) return false;
    value.assign(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return true;
  }
  bool texts(std::vector<std::string>& values) {
    std::uint32_t count = 0;
    if (!number(count) || rest_.size() < count) return false;
    values.resize(count);
    for (std::string& value : values) {
      if (!text(value)) return false;
    }
    return true;
  }
  template <typename T>
  bool numbers(std::vector<T>& values) {
    std::uint32_t count = 0;
    if (!number(count) || rest_.size() / sizeof(T) < count) return false;
    values.resize(count);
    for (T& value : values) {
      if (!number(value)) return false;
    }
    return true;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace muster::agent::process
