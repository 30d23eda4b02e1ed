#include "agent/stacks/python_walk.h"

#include <limits>

namespace muster::agent::inline stacks {
namespace {

constexpr std::uint64_t kTagBits = 7;  // objects are aligned; 3.13 and later use the low bits for marks

// The offset of the thread id in glibc's struct pthread. Interpreters before 3.11 know only the pthread.
#if defined(__aarch64__)
constexpr std::uint64_t kTidInPthread = 208;
#else
constexpr std::uint64_t kTidInPthread = 720;
#endif

std::optional<std::uint64_t> native_id(PageCache& memory, const PythonLayout& layout, std::uint64_t thread) {
  if (layout.thread.native_id != PythonLayout::kNone) return memory.pointer(thread + layout.thread.native_id);
  const auto pthread = memory.pointer(thread + layout.thread.pthread);
  if (!pthread) return std::nullopt;
  // Another C library keeps it elsewhere. Then the id matches no thread.
  const auto tid = memory.get<std::int32_t>(*pthread + kTidInPthread);
  return tid && *tid > 0 ? static_cast<std::uint64_t>(*tid) : 0;
}

pid_t tid_on_host(std::uint64_t id, const std::map<pid_t, pid_t>& tids) {
  if (id > static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max())) return 0;
  const auto found = tids.find(static_cast<pid_t>(id));
  return found == tids.end() ? 0 : found->second;
}

// 0 if the thread runs no Python code.
std::optional<std::uint64_t> innermost_frame(PageCache& memory, const PythonLayout& layout, std::uint64_t thread) {
  const auto frame = memory.pointer(thread + layout.thread.frame);
  if (!frame || *frame == 0 || layout.thread.in_cframe == PythonLayout::kNone) return frame;
  return memory.pointer(*frame + layout.thread.in_cframe);
}

// Adds the frame, unless it is one of the interpreter itself. False if it cannot be read.
bool add_frame(PageCache& memory, const PythonLayout& layout, std::uint64_t address, PythonFrameChain& chain) {
  constexpr std::uint8_t kInterpreterOwned = 3;
  if (layout.frame.owner != PythonLayout::kNone) {
    const auto owner = memory.get<std::uint8_t>(address + layout.frame.owner);
    if (!owner) return false;
    if (*owner >= kInterpreterOwned) return true;
  }
  const auto code = memory.pointer(address + layout.frame.code);
  if (!code) return false;
  RawPythonFrame& frame = chain.frames.emplace_back();
  frame.address = address;
  frame.code = *code & ~kTagBits;
  if (layout.code.bytecode == PythonLayout::kNone) {
    const auto index = memory.get<std::int32_t>(address + layout.frame.instruction);
    frame.instruction = index.value_or(0);
    return index.has_value();
  }
  const auto instruction = memory.get<std::int64_t>(address + layout.frame.instruction);
  frame.instruction = instruction.value_or(0);
  if (!instruction || layout.frame.bytecode_index == PythonLayout::kNone) return instruction.has_value();
  const auto index = memory.get<std::int32_t>(address + layout.frame.bytecode_index);
  frame.bytecode_index = index.value_or(0);
  return index.has_value();
}

}  // namespace

std::optional<PythonThreadList> read_python_threads(PageCache& memory, const PythonInterpreter& python,
                                                    const std::map<pid_t, pid_t>& tids) {
  const PythonLayout& layout = python.layout;
  PythonThreadList list;
  auto interpreter = memory.pointer(python.runtime + layout.runtime.interpreters);
  for (std::size_t i = 0; interpreter && *interpreter != 0; ++i) {
    if (i == kMaxPythonInterpreters) {
      list.is_cut = true;
      return list;
    }
    auto thread = memory.pointer(*interpreter + layout.interpreter.threads);
    while (thread && *thread != 0) {
      if (list.threads.size() == kMaxPythonThreads) {
        list.is_cut = true;
        return list;
      }
      // The thread may have ended, and its memory may hold something else by now.
      if (memory.pointer(*thread + layout.thread.interpreter) != interpreter) return std::nullopt;
      const auto id = native_id(memory, layout, *thread);
      if (!id) return std::nullopt;
      list.threads.push_back({.address = *thread, .interpreter = *interpreter, .tid = tid_on_host(*id, tids)});
      thread = memory.pointer(*thread + layout.thread.next);
    }
    if (!thread) return std::nullopt;
    interpreter = memory.pointer(*interpreter + layout.interpreter.next);
  }
  if (!interpreter) return std::nullopt;
  return list;
}

std::optional<PythonFrameChain> read_python_frames(PageCache& memory, const PythonInterpreter& python,
                                                   const PythonThreadState& thread) {
  const PythonLayout& layout = python.layout;
  if (memory.pointer(thread.address + layout.thread.interpreter) != thread.interpreter) return std::nullopt;
  PythonFrameChain chain;
  auto frame = innermost_frame(memory, layout, thread.address);
  for (std::size_t i = 0; frame && *frame != 0; ++i) {
    if (i == kMaxPythonFramesRead) {
      chain.is_cut = true;
      return chain;
    }
    if (!add_frame(memory, layout, *frame, chain)) return std::nullopt;
    frame = memory.pointer(*frame + layout.frame.previous);
  }
  if (!frame) return std::nullopt;
  return chain;
}

}  // namespace muster::agent::stacks
