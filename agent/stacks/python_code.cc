#include "agent/stacks/python_code.h"

#include <algorithm>

namespace muster::agent::inline stacks {
namespace {

constexpr std::uint64_t kMaxLineTable = 1u << 20;
constexpr std::uint64_t kMaxTextLength = 1u << 24;

void append_utf8(std::uint32_t point, std::string& text) {
  const bool is_character = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
  if (!is_character) point = 0xfffd;
  const auto add = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (point < 0x80) return add(point);
  if (point < 0x800) {
    add(0xc0 | point >> 6);
  } else {
    if (point < 0x10000) {
      add(0xe0 | point >> 12);
    } else {
      add(0xf0 | point >> 18);
      add(0x80 | (point >> 12 & 0x3f));
    }
    add(0x80 | (point >> 6 & 0x3f));
  }
  add(0x80 | (point & 0x3f));
}

bool has_type(PageCache& memory, const PythonInterpreter& python, std::uint64_t object, std::uint64_t type) {
  return memory.pointer(object + python.layout.object.type) == type;
}

// Texts consist of equally wide characters.
std::string decode(std::span<const std::byte> bytes, std::size_t width) {
  std::string text;
  for (std::size_t i = 0; i + width <= bytes.size(); i += width) {
    std::uint32_t point = 0;
    std::memcpy(&point, bytes.data() + i, width);
    append_utf8(point, text);
  }
  return text;
}

// nullopt if there is no bytes object.
std::optional<std::vector<std::byte>> read_bytes(PageCache& memory, const PythonInterpreter& python,
                                                 std::uint64_t address) {
  const auto& layout = python.layout.object;
  if (!has_type(memory, python, address, python.bytes_type)) return std::nullopt;
  const auto size = memory.pointer(address + layout.size);
  if (!size || *size > kMaxLineTable) return std::nullopt;
  std::vector<std::byte> bytes(*size);
  if (!memory.read(address + layout.bytes_data, bytes)) return std::nullopt;
  return bytes;
}

}  // namespace

std::optional<std::string> read_python_text(PageCache& memory, const PythonInterpreter& python, std::uint64_t address,
                                            std::size_t limit) {
  const auto& layout = python.layout.object;
  if (!has_type(memory, python, address, python.text_type)) return std::nullopt;
  const auto length = memory.pointer(address + layout.text_length);
  const auto state = memory.get<std::uint32_t>(address + layout.text_state);
  if (!length || !state || *length > kMaxTextLength) return std::nullopt;
  const std::uint32_t width = *state >> layout.kind_bit & 7;
  const bool is_compact = (*state >> (layout.kind_bit + 3) & 1) != 0;
  const bool is_ascii = (*state >> (layout.kind_bit + 4) & 1) != 0;
  if (!is_compact || (width != 1 && width != 2 && width != 4)) return std::nullopt;
  const std::uint64_t kept = std::min<std::uint64_t>(*length, limit);
  std::vector<std::byte> bytes(kept * width);
  if (!memory.read(address + layout.ascii_data + (is_ascii ? 0 : layout.other_header), bytes)) return std::nullopt;
  return decode(bytes, width) + (kept < *length ? "…" : "");
}

std::optional<PythonCode> read_python_code(PageCache& memory, const PythonInterpreter& python, std::uint64_t address) {
  const auto& layout = python.layout.code;
  if (!has_type(memory, python, address, python.code_type)) return std::nullopt;
  const bool is_qualified = layout.qualified_name != PythonLayout::kNone;
  const auto name = memory.pointer(address + (is_qualified ? layout.qualified_name : layout.name));
  const auto file = memory.pointer(address + layout.file);
  const auto lines = memory.pointer(address + layout.lines);
  const auto first_line = memory.get<std::int32_t>(address + layout.first_line);
  if (!name || !file || !lines || !first_line) return std::nullopt;
  auto function = read_python_text(memory, python, *name, kMaxPythonName);
  auto path = read_python_text(memory, python, *file, kMaxPythonFile);
  auto table = read_bytes(memory, python, *lines);
  if (!function || !path || !table) return std::nullopt;
  std::int64_t units = -1;
  if (layout.bytecode != PythonLayout::kNone) {
    const auto size = memory.get<std::int64_t>(address + python.layout.object.size);
    if (!size || *size < 0) return std::nullopt;
    units = *size;
  }
  return PythonCode{.function = std::move(*function),
                    .file = std::move(*path),
                    .first_line = *first_line,
                    .lines = std::move(*table),
                    .code_units = units};
}

}  // namespace muster::agent::stacks
