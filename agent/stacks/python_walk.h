// Follows the lists of interpreters, threads and frames of CPython in the memory of another process.
//
// The process runs meanwhile. So each function returns nullopt if what it met cannot be right; the caller tries again.
// All lists are bounded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "agent/stacks/python_layout.h"

namespace muster::agent::inline stacks {

inline constexpr std::size_t kMaxPythonInterpreters = 64;
inline constexpr std::size_t kMaxPythonThreads = 1000;
inline constexpr std::size_t kMaxPythonFramesRead = 1000;

struct PythonThreadState {
  std::uint64_t address = 0;
  std::uint64_t interpreter = 0;
  pid_t tid = 0;  // as the host sees it; 0 if not known

  bool operator==(const PythonThreadState&) const = default;
};

struct PythonThreadList {
  std::vector<PythonThreadState> threads;  // at most kMaxPythonThreads; those of the newest interpreter come first
  bool is_cut = false;                     // the process has more threads, or more than kMaxPythonInterpreters
};

// `tids` maps the thread ids that the process sees to those that the host sees.
std::optional<PythonThreadList> read_python_threads(PageCache& memory, const PythonInterpreter& python,
                                                    const std::map<pid_t, pid_t>& tids);

// A frame as the interpreter keeps it.
struct RawPythonFrame {
  std::uint64_t address = 0;
  std::uint64_t code = 0;
  std::int64_t instruction = 0;     // an address since 3.11; before that an index
  std::int32_t bytecode_index = 0;  // of the thread's copy of the code; 0 if there are no copies

  bool operator==(const RawPythonFrame&) const = default;
};

struct PythonFrameChain {
  std::vector<RawPythonFrame> frames;  // innermost first; frames of the interpreter itself are left out
  bool is_cut = false;                 // more than kMaxPythonFramesRead

  bool operator==(const PythonFrameChain&) const = default;
};

std::optional<PythonFrameChain> read_python_frames(PageCache& memory, const PythonInterpreter& python,
                                                   const PythonThreadState& thread);

}  // namespace muster::agent::stacks
