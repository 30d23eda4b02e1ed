// The memory of a made-up process that runs CPython: an ELF image that exports an interpreter, and Python objects that
// a test adds. With find_python() it becomes something to read stacks from. Also the seeds of the fuzz target are such
// images.
//
// Versions before 3.13 use the layouts under test; so test those against real interpreters.
#pragma once

#include <elf.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/stacks/python_layout.h"

namespace muster::testing_support {

class FakePython final : public agent::TargetMemory {
 public:
  static constexpr std::uint64_t kBase = 0x400000;
  static constexpr pid_t kTid = 4242;

  explicit FakePython(std::uint32_t version, bool is_free_threaded = false)
      : image_(kHeap, '\0'), kind_bit_(is_free_threaded && (version >> 16 & 0xff) >= 14 ? 8 : 2) {
    store(kBase + kVersion, std::uint64_t{version});
    write_debug_offsets(version, is_free_threaded);
    write_elf();
    agent::PageCache pages(*this);
    const auto elf = agent::LoadedElf::open(pages, kBase);
    if (elf) found_ = agent::find_python(pages, *elf);
  }

  bool read(std::uint64_t address, std::span<std::byte> to) override {
    if (on_read) on_read();
    // A page is readable as a whole, though the image may end within it.
    std::memset(to.data(), 0, to.size());
    if (address < kBase || address >= kBase + image_.size()) return false;
    const std::uint64_t offset = address - kBase;
    std::memcpy(to.data(), image_.data() + offset, std::min<std::uint64_t>(to.size(), image_.size() - offset));
    return true;
  }
  std::optional<std::uint64_t> sleep_mark(pid_t) override { return mark; }

  const base::Result<agent::PythonInterpreter>& found() const { return found_; }
  const agent::PythonInterpreter& python() const { return *found_; }
  const std::string& image() const { return image_; }

  template <typename T>
  void store(std::uint64_t address, T value) {
    std::memcpy(image_.data() + (address - kBase), &value, sizeof value);
  }

  std::uint64_t allocate(std::size_t size) {
    const std::uint64_t address = kBase + image_.size();
    image_.resize(image_.size() + (size + 15) / 16 * 16);
    return address;
  }

  // `characters` are of `width` bytes each.
  std::uint64_t add_text(std::string_view characters, std::uint32_t width = 1, bool is_ascii = true) {
    const auto& object = layout().object;
    const std::uint32_t data = object.ascii_data + (is_ascii ? 0 : object.other_header);
    const std::uint64_t address = add_object(data + characters.size(), python().text_type);
    store(address + object.text_length, std::uint64_t{characters.size() / width});
    store(address + object.text_state, (width | 8u | (is_ascii ? 16u : 0)) << kind_bit_);
    std::memcpy(image_.data() + (address + data - kBase), characters.data(), characters.size());
    return address;
  }

  std::uint64_t add_bytes(std::string_view bytes) {
    const auto& object = layout().object;
    const std::uint64_t address = add_object(object.bytes_data + bytes.size(), python().bytes_type);
    store(address + object.size, std::uint64_t{bytes.size()});
    std::memcpy(image_.data() + (address + object.bytes_data - kBase), bytes.data(), bytes.size());
    return address;
  }

  std::uint64_t add_code(std::uint64_t function, std::string_view file, int first_line, std::string_view lines) {
    const auto& code = layout().code;
    const std::uint64_t address = add_object(512, python().code_type);
    store(address + (code.qualified_name == agent::PythonLayout::kNone ? code.name : code.qualified_name), function);
    store(address + code.file, add_text(file));
    store(address + code.lines, add_bytes(lines));
    store(address + code.first_line, first_line);
    if (code.bytecode != agent::PythonLayout::kNone) store(address + layout().object.size, std::uint64_t{100});
    return address;
  }
  std::uint64_t add_code(std::string_view function, int first_line) {
    return add_code(add_text(function), "train.py", first_line, std::string("\xe9\x00\xe9\x02", 4));
  }

  // `offset` is that of the instruction, in bytes.
  std::uint64_t add_frame(std::uint64_t code, int offset, std::uint64_t previous) {
    const auto& frame = layout().frame;
    const std::uint64_t address = allocate(128);
    store(address + frame.code, code);
    store(address + frame.previous, previous);
    if (layout().code.bytecode == agent::PythonLayout::kNone) {
      store(address + frame.instruction, offset / static_cast<int>(layout().instruction_scale));
    } else {
      store(address + frame.instruction, code + layout().code.bytecode + static_cast<std::uint64_t>(offset));
    }
    return address;
  }

  // Adds an interpreter without threads in front of the others. The next threads are threads of it.
  void add_interpreter() {
    const std::uint64_t address = allocate(128);
    store(address + layout().interpreter.next, std::exchange(interpreter_, address));
    store(python().runtime + layout().runtime.interpreters, address);
    newest_ = 0;
  }

  // Returns the thread's state. `frame` is its innermost frame.
  std::uint64_t add_thread(std::uint64_t frame, pid_t tid = kTid) {
    const auto& thread = layout().thread;
    if (interpreter_ == 0) add_interpreter();
    const std::uint64_t address = allocate(256);
    store(address + thread.next, std::exchange(newest_, address));
    store(address + thread.interpreter, interpreter_);
    store(interpreter_ + layout().interpreter.threads, address);
    if (thread.native_id != agent::PythonLayout::kNone) {
      store(address + thread.native_id, std::uint64_t(tid));
    } else {
      const std::uint64_t pthread = allocate(768);
      store(address + thread.pthread, pthread);
      store(pthread + 720, tid);
    }
    set_frame(address, frame);
    return address;
  }
  void set_frame(std::uint64_t thread, std::uint64_t frame) {
    if (layout().thread.in_cframe == agent::PythonLayout::kNone) return store(thread + layout().thread.frame, frame);
    const std::uint64_t cframe = allocate(64);
    store(cframe + layout().thread.in_cframe, frame);
    store(thread + layout().thread.frame, cframe);
  }

  const agent::PythonLayout& layout() const { return python().layout; }

  std::optional<std::uint64_t> mark = 1;  // nullopt: the threads run
  std::function<void()> on_read;          // before each read

 private:
  static constexpr std::uint64_t kDynamic = 0xb0, kHash = 0x110, kSymbols = 0x150, kStrings = 0x250, kVersion = 0x300,
                                 kTypes = 0x310, kRuntime = 0x400, kHeap = 0x800;

  std::uint64_t add_object(std::size_t size, std::uint64_t type) {
    const std::uint64_t address = allocate(size);
    store(address + layout().object.type, type);
    return address;
  }

  void write_elf() {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 2;
    store(kBase, header);
    Elf64_Phdr load{};
    load.p_type = PT_LOAD;
    store(kBase + sizeof header, load);
    load.p_type = PT_DYNAMIC;
    load.p_vaddr = kDynamic;
    store(kBase + sizeof header + sizeof load, load);
    const std::array<std::pair<std::int64_t, std::uint64_t>, 4> dynamic = {
        {{DT_HASH, kHash}, {DT_SYMTAB, kSymbols}, {DT_STRTAB, kStrings}, {DT_NULL, 0}}};
    std::uint64_t at = kBase + kDynamic;
    for (const auto& [tag, value] : dynamic) {
      store(at, tag);
      store(at + 8, value);
      at += 16;
    }
    write_symbols({{"_PyRuntime", kRuntime},
                   {"Py_Version", kVersion},
                   {"PyCode_Type", kTypes},
                   {"PyUnicode_Type", kTypes + 16},
                   {"PyBytes_Type", kTypes + 32}});
  }

  // All are in one bucket, in order.
  void write_symbols(const std::vector<std::pair<std::string, std::uint64_t>>& symbols) {
    store(kBase + kHash, std::uint32_t{1});
    store(kBase + kHash + 8, std::uint32_t{1});
    std::uint32_t name = 1;
    for (std::uint32_t i = 1; i <= symbols.size(); ++i) {
      const auto& [text, value] = symbols[i - 1];
      Elf64_Sym symbol{};
      symbol.st_name = name;
      symbol.st_shndx = 1;
      symbol.st_value = value;
      store(kBase + kSymbols + i * sizeof symbol, symbol);
      std::memcpy(image_.data() + kStrings + name, text.data(), text.size());
      name += static_cast<std::uint32_t>(text.size()) + 1;
      store(kBase + kHash + 12 + i * 4, i == symbols.size() ? 0 : i + 1);
    }
  }

  // The order is that of CPython's pycore_debug_offsets.h; the values are made up.
  void write_debug_offsets(std::uint32_t version, bool is_free_threaded) {
    const bool is_313 = (version >> 16 & 0xff) == 13;
    std::memcpy(image_.data() + kRuntime, "xdebugpy", 8);
    const auto word = [&](std::size_t index, std::uint64_t value) { store(kBase + kRuntime + index * 8, value); };
    const auto group = [&](std::size_t begin, std::initializer_list<std::uint64_t> values) {
      for (const std::uint64_t value : values) word(begin++, value);
    };
    group(1, {version, is_free_threaded ? 1u : 0u, 0, 0, 904});
    group(6, {0, 0, 64, 72});
    group(is_313 ? 19 : 22, {0, 0, 8, 16, 72, 152, 160});
    group(is_313 ? 28 : 31, {0, 8, 0, 56, 80, 74});
    group(is_313 ? 34 : 39, {0, 112, 120, 128, 136, 68, 0, 0, 0, 208});
    // Free-threaded builds have a larger object header.
    const std::uint64_t more = is_free_threaded ? 16 : 0;
    group(is_313 ? 44 : 50, {16 + more, 8 + more});
    group(is_313 ? 64 : 74, {0, 16 + more, 32 + more});
    group(is_313 ? 67 : 77, {0, 32 + more, 16 + more, 40 + more});
    if (is_313) return;
    word(38, 76);
    word(49, 200);
  }

  std::string image_;
  std::uint32_t kind_bit_;  // in the state of a text
  base::Result<agent::PythonInterpreter> found_ = base::not_found("no ELF file");
  std::uint64_t interpreter_ = 0;
  std::uint64_t newest_ = 0;
};

}  // namespace muster::testing_support
