// One list of fields for both directions of a message. Each message has a function `fields(io, message)` that calls
// `io` with its fields in their order. Called with a FieldWriter it encodes, and with a FieldReader it decodes.
//
// Errors: `fields` returns false if the bytes do not parse. A FieldWriter always returns true.
//
// Example:
//   template <MessageOf<SignalCommand> M>
//   bool fields(auto& io, M& m) { return io(m.rank, m.signo); }
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "agent/process/wire.h"

namespace muster::agent::inline process {

// M is T or const T.
template <typename M, typename T>
concept MessageOf = std::is_same_v<std::remove_const_t<M>, T>;

inline constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

class FieldWriter {
 public:
  template <typename... Fields>
  bool operator()(const Fields&... fields) {
    (write(fields), ...);
    return true;
  }
  // A list of structs. `each` is called with each of them. The limit counts only when the list is read.
  template <typename T, typename Each>
  bool list(const std::vector<T>& values, std::size_t, Each each) {
    write(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) each(value);
    return true;
  }
  std::string take() { return out_.take(); }

 private:
  void write(const std::string& text) { out_.text(text); }
  void write(const std::vector<std::string>& texts) { out_.texts(texts); }
  template <typename T>
  void write(const std::vector<T>& numbers) {
    out_.numbers(numbers);
  }
  template <typename T>
  void write(const std::optional<T>& value) {
    write(value.has_value());
    if (value) write(*value);
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void write(const T& number) { out_.number(number); }

  WireWriter out_;
};

class FieldReader {
 public:
  // `max_text` limits the bytes of each string.
  explicit FieldReader(std::string_view bytes, std::size_t max_text = kNoLimit) : in_(bytes), max_text_(max_text) {}

  template <typename... Fields>
  bool operator()(Fields&... fields) {
    return (read(fields) && ...);
  }
  template <typename T, typename Each>
  bool list(std::vector<T>& values, std::size_t most, Each each) {
    std::uint32_t count = 0;
    if (!in_.number(count) || count > most) return false;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!each(values.emplace_back())) return false;
    }
    return true;
  }
  bool at_end() const { return in_.at_end(); }

 private:
  bool read(std::string& text) { return in_.text(text) && text.size() <= max_text_; }
  bool read(std::vector<std::string>& texts) { return in_.texts(texts); }
  template <typename T>
  bool read(std::vector<T>& numbers) {
    return in_.numbers(numbers);
  }
  template <typename T>
  bool read(std::optional<T>& value) {
    bool has_value = false;
    return read(has_value) && (!has_value || read(value.emplace()));
  }
  bool read(bool& value) {
    std::uint8_t byte = 0;
    if (!in_.number(byte) || byte > 1) return false;
    value = byte == 1;
    return true;
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  bool read(T& number) { return in_.number(number); }

  WireReader in_;
  std::size_t max_text_;
};

// Writes a message that is one of several types: its index, as a number of type Kind, then its fields. `fields` is
// called with the writer or reader and the message.
template <typename Kind, typename Variant, typename Fields>
void write_one_of(FieldWriter& out, const Variant& value, Fields fields) {
  out(static_cast<Kind>(value.index()));
  std::visit([&](const auto& message) { fields(out, message); }, value);
}

template <typename Kind, typename Variant, typename Fields>
bool read_one_of(FieldReader& in, Variant& value, Fields fields) {
  Kind kind{};
  if (!in(kind)) return false;
  return [&]<std::size_t... indexes>(std::index_sequence<indexes...>) {
    return ((kind == indexes && fields(in, value.template emplace<indexes>())) || ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
}

}  // namespace muster::agent::process
