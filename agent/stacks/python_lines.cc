#include "agent/stacks/python_lines.h"

#include <limits>

namespace muster::agent::inline stacks {
namespace {

// A line is a positive number that fits; anything else is unknown.
int checked(std::int64_t line) {
  return line > 0 && line <= std::numeric_limits<int>::max() ? static_cast<int>(line) : 0;
}

// Until 3.9, each pair is (bytes of code, lines). The line changes after that many bytes.
int line_by_deltas(std::span<const std::byte> table, std::int64_t line, std::int64_t offset) {
  std::int64_t end = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    end += std::to_integer<std::uint8_t>(table[i]);
    if (end > offset) break;
    line += static_cast<std::int8_t>(table[i + 1]);
  }
  return checked(line);
}

// 3.10: each pair is a range, as (bytes of code, lines since the range before). -128 means that it has no line.
int line_by_ranges(std::span<const std::byte> table, std::int64_t line, std::int64_t offset) {
  constexpr int kNoLine = -128;
  std::int64_t end = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    end += std::to_integer<std::uint8_t>(table[i]);
    const int step = static_cast<std::int8_t>(table[i + 1]);
    if (step != kNoLine) line += step;
    if (end > offset) return step == kNoLine ? 0 : checked(line);
  }
  return 0;
}

// Reads the numbers of a location table: six bits a byte, the lowest first; bit 6 says that another byte follows.
class LocationReader {
 public:
  explicit LocationReader(std::span<const std::byte> table) : rest_(table) {}

  bool is_empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = std::to_integer<std::uint8_t>(rest_.front());
    rest_ = rest_.subspan(1);
    return value;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 60; shift += 6) {
      const std::uint8_t part = byte();
      value |= std::uint64_t{part & 0x3fu} << shift;
      if ((part & 0x40) == 0) break;
    }
    return value;
  }
  std::int64_t signed_number() {
    const std::uint64_t value = number();
    const auto size = static_cast<std::int64_t>(value >> 1);
    return (value & 1) != 0 ? -size : size;
  }

 private:
  std::span<const std::byte> rest_;
};

// Since 3.11. An entry begins with a byte 1cccclll: c is its form, l + 1 the number of code units.
int line_by_locations(std::span<const std::byte> table, std::int64_t line, std::int64_t offset) {
  constexpr int kOneLine = 10, kTwoLines = 12, kNoColumns = 13, kLong = 14, kNone = 15;
  constexpr std::int64_t kUnit = 2;
  constexpr std::int64_t kMaxStep = 1 << 30;
  LocationReader reader(table);
  std::int64_t end = 0;
  while (!reader.is_empty()) {
    const std::uint8_t head = reader.byte();
    const int form = head >> 3 & 0xf;
    end += ((head & 7) + 1) * kUnit;
    std::int64_t step = 0;
    if (form == kNoColumns || form == kLong) {
      step = reader.signed_number();
      if (step > kMaxStep || step < -kMaxStep) return 0;
      for (int i = 0; form == kLong && i < 3; ++i) reader.number();
    } else if (form >= kOneLine && form <= kTwoLines) {
      step = form - kOneLine;
      reader.byte();
      reader.byte();
    } else if (form < kOneLine) {
      reader.byte();
    }
    line += step;
    if (end > offset) return form == kNone ? 0 : checked(line);
  }
  return 0;
}

}  // namespace

int line_of(LineTable kind, std::span<const std::byte> table, int first_line, std::int64_t offset) {
  if (offset < 0) return checked(first_line);
  switch (kind) {
    case LineTable::kDeltas:
      return line_by_deltas(table, first_line, offset);
    case LineTable::kRanges:
      return line_by_ranges(table, first_line, offset);
    case LineTable::kLocations:
      return line_by_locations(table, first_line, offset);
  }
  return 0;
}

}  // namespace muster::agent::stacks
