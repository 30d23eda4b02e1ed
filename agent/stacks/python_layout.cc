// find_python() first. Then the tables of the versions that do not describe themselves, and read_debug_offsets().
#include "agent/stacks/python_layout.h"

#include <array>

namespace muster::agent::inline stacks {
namespace {

constexpr std::uint32_t kMaxOffset = 1u << 20;

// Until 3.11, texts that are not ASCII keep a third word beside the length and pointer of their UTF-8 form.
constexpr std::uint32_t kHeaderUntil311 = 24;

// CPython writes its version as PY_VERSION_HEX: 0x030b02f0 is 3.11.2, and its last byte says that this is a final
// release.
struct Version {
  int minor = 0;
  int micro = -1;  // -1 if not known
  bool is_preview = false;
};

Version version_of(std::uint64_t hex) {
  constexpr std::uint64_t kCandidate = 0xc;
  return {.minor = static_cast<int>(hex >> 16 & 0xff),
          .micro = static_cast<int>(hex >> 8 & 0xff),
          .is_preview = (hex >> 4 & 0xf) < kCandidate};
}

// Versions before 3.11 export no version. So know them by a function that each of them added.
std::optional<Version> read_version(PageCache& memory, const LoadedElf& elf) {
  if (const auto address = elf.find(memory, "Py_Version")) {
    const auto hex = memory.pointer(*address);
    if (!hex || *hex >> 24 != 3) return std::nullopt;
    return version_of(*hex);
  }
  if (elf.find(memory, "PyModule_AddObjectRef")) return Version{.minor = 10};
  if (elf.find(memory, "PyFrame_GetBack")) return Version{.minor = 9};
  if (elf.find(memory, "PyCode_NewWithPosOnlyArgs")) return Version{.minor = 8};
  return std::nullopt;
}

std::string text_of(const Version& version) {
  return version.micro < 0 ? fmt::format("3.{}", version.minor) : fmt::format("3.{}.{}", version.minor, version.micro);
}

PythonLayout layout_3_8() {
  PythonLayout layout;
  layout.runtime = {.interpreters = 32};
  layout.interpreter = {.next = 0, .threads = 8};
  layout.thread = {.next = 8, .interpreter = 16, .pthread = 176, .frame = 24};
  layout.frame = {.previous = 24, .code = 32, .instruction = 104};
  layout.code = {.file = 104, .name = 112, .lines = 120, .first_line = 40};
  layout.line_table = LineTable::kDeltas;
  layout.object.other_header = kHeaderUntil311;
  return layout;
}

PythonLayout layout_3_10() {
  PythonLayout layout = layout_3_8();
  layout.frame.instruction = 96;
  layout.line_table = LineTable::kRanges;
  layout.instruction_scale = 2;
  return layout;
}

PythonLayout layout_3_11() {
  PythonLayout layout;
  layout.runtime = {.interpreters = 40};
  layout.interpreter = {.next = 0, .threads = 16};
  layout.thread = {.next = 8, .interpreter = 16, .pthread = 152, .native_id = 160, .frame = 56, .in_cframe = 8};
  layout.frame = {.previous = 48, .code = 32, .instruction = 56, .owner = 69};
  layout.code = {.file = 112, .name = 120, .qualified_name = 128, .lines = 136, .first_line = 72, .bytecode = 184};
  layout.object.other_header = kHeaderUntil311;
  return layout;
}

PythonLayout layout_3_12() {
  PythonLayout layout;
  layout.runtime = {.interpreters = 40};
  layout.interpreter = {.next = 0, .threads = 72};
  layout.thread = {.next = 8, .interpreter = 16, .pthread = 136, .native_id = 144, .frame = 56, .in_cframe = 0};
  layout.frame = {.previous = 8, .code = 0, .instruction = 56, .owner = 70};
  layout.code = {.file = 112, .name = 120, .qualified_name = 128, .lines = 136, .first_line = 68, .bytecode = 192};
  layout.object.ascii_data = 40;
  return layout;
}

// _Py_DebugOffsets consists of groups. Here each group has the index of its first word of 8 bytes. Within a group the
// order is the same in all versions so far.
struct DebugGroups {
  std::size_t interpreter, thread, frame, code, object, bytes, text;
  std::size_t frame_bytecode_index, code_bytecode_copies;  // 0 if the version has none
};
constexpr std::size_t kDebugWords = 96;
constexpr DebugGroups kGroups313 = {6, 19, 28, 34, 44, 64, 67, 0, 0};
constexpr DebugGroups kGroups314 = {6, 22, 31, 39, 50, 74, 77, 38, 49};

std::optional<PythonLayout> read_debug_offsets(PageCache& memory, std::uint64_t runtime, int minor) {
  std::array<std::uint64_t, kDebugWords> words{};
  if (!memory.read(runtime, std::as_writable_bytes(std::span(words)))) return std::nullopt;
  if (std::memcmp(words.data(), "xdebugpy", 8) != 0 || version_of(words[1]).minor != minor) return std::nullopt;
  const bool is_free_threaded = words[2] != 0;
  const DebugGroups& groups = minor == 13 ? kGroups313 : kGroups314;
  bool is_sane = true;
  const auto word = [&](std::size_t index) {
    is_sane = is_sane && words[index] < kMaxOffset;
    return static_cast<std::uint32_t>(words[index]);
  };
  PythonLayout layout;
  layout.runtime = {.interpreters = word(5)};
  layout.interpreter = {.next = word(groups.interpreter + 2), .threads = word(groups.interpreter + 3)};
  layout.thread = {.next = word(groups.thread + 2),
                   .interpreter = word(groups.thread + 3),
                   .pthread = word(groups.thread + 5),
                   .native_id = word(groups.thread + 6),
                   .frame = word(groups.thread + 4)};
  layout.frame = {.previous = word(groups.frame + 1),
                  .code = word(groups.frame + 2),
                  .instruction = word(groups.frame + 3),
                  .owner = word(groups.frame + 5)};
  layout.code = {.file = word(groups.code + 1),
                 .name = word(groups.code + 2),
                 .qualified_name = word(groups.code + 3),
                 .lines = word(groups.code + 4),
                 .first_line = word(groups.code + 5),
                 .bytecode = word(groups.code + 9)};
  layout.object = {.type = word(groups.object + 1),
                   .size = word(groups.object),
                   .bytes_data = word(groups.bytes + 2),
                   .text_length = word(groups.text + 2),
                   .text_state = word(groups.text + 1),
                   .ascii_data = word(groups.text + 3)};
  if (is_free_threaded && minor >= 14) {
    layout.object.kind_bit = 8;  // `interned` is a whole byte there
    layout.frame.bytecode_index = word(groups.frame_bytecode_index);
    layout.code.bytecode_copies = word(groups.code_bytecode_copies);
  }
  if (!is_sane) return std::nullopt;
  return layout;
}

std::optional<PythonLayout> layout_of(PageCache& memory, const Version& version, std::uint64_t runtime) {
  if (version.is_preview) return std::nullopt;
  switch (version.minor) {
    case 8:
    case 9:
      return layout_3_8();
    case 10:
      return layout_3_10();
    case 11:
      return layout_3_11();
    case 12:
      return layout_3_12();
    case 13:
    case 14:
      return read_debug_offsets(memory, runtime, version.minor);
    default:
      return std::nullopt;
  }
}

}  // namespace

base::Result<PythonInterpreter> find_python(PageCache& memory, const LoadedElf& elf) {
  const auto runtime = elf.find(memory, "_PyRuntime");
  if (!runtime) return base::not_found("it exports no _PyRuntime");
  const auto version = read_version(memory, elf);
  if (!version) return base::unimplemented("the version of its CPython is not known");
  const auto layout = layout_of(memory, *version, *runtime);
  if (!layout) {
    return base::unimplemented("CPython {}{} is not known: releases of 3.8 to 3.14 are", text_of(*version),
                               version->is_preview ? " (a preview)" : "");
  }
  PythonInterpreter found{.version = text_of(*version), .layout = *layout, .runtime = *runtime};
  const auto code = elf.find(memory, "PyCode_Type");
  const auto text = elf.find(memory, "PyUnicode_Type");
  const auto bytes = elf.find(memory, "PyBytes_Type");
  if (!code || !text || !bytes) return base::unimplemented("its CPython {} exports no types", found.version);
  found.code_type = *code;
  found.text_type = *text;
  found.bytes_type = *bytes;
  return found;
}

}  // namespace muster::agent::stacks
