// How one thread is read while it may run: read read_thread() first, then Attempt.
#include "agent/stacks/python_stack.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

#include "agent/stacks/python_code.h"
#include "agent/stacks/python_lines.h"
#include "agent/stacks/python_walk.h"

namespace muster::agent::inline stacks {
namespace {

constexpr int kAttempts = 3;
constexpr int kEqualReadings = 10;

// Free-threaded interpreters have a copy of the code for each thread: an array with its size in front.
std::optional<std::uint64_t> begin_of_copy(PageCache& memory, const PythonLayout& layout, const RawPythonFrame& frame) {
  const auto copies = memory.pointer(frame.code + layout.code.bytecode_copies);
  if (!copies) return std::nullopt;
  const auto count = memory.pointer(*copies);
  if (!count || frame.bytecode_index < 0 || static_cast<std::uint64_t>(frame.bytecode_index) >= *count) {
    return std::nullopt;
  }
  return memory.pointer(*copies + 8 + static_cast<std::uint64_t>(frame.bytecode_index) * 8);
}

// Returns the offset of the frame's instruction in its code, in bytes. nullopt if it lies outside.
std::optional<std::int64_t> offset_of(PageCache& memory, const PythonLayout& layout, const RawPythonFrame& frame,
                                      const PythonCode& code) {
  if (layout.code.bytecode == PythonLayout::kNone) return frame.instruction * layout.instruction_scale;
  constexpr std::int64_t kUnit = 2;
  std::uint64_t begin = frame.code + layout.code.bytecode;
  if (layout.code.bytecode_copies != PythonLayout::kNone && frame.bytecode_index != 0) {
    const auto copy = begin_of_copy(memory, layout, frame);
    if (!copy) return std::nullopt;
    begin = *copy;
  }
  const auto offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(frame.instruction) - begin);
  if (offset < -kUnit || offset / kUnit > code.code_units) return std::nullopt;
  return offset;
}

// One reading of a thread's frames, with names and lines.
struct Attempt {
  PythonFrameChain chain;
  std::vector<PythonFrame> frames;  // as chain.frames, at most kMaxPythonFrames
};

// Fills in all frames of one code object, so that its line table, which may be large, need not be kept. False if an
// instruction lies outside of the code.
bool fill_frames(PageCache& memory, const PythonLayout& layout, const PythonCode& code, std::uint64_t address,
                 Attempt& to) {
  for (std::size_t i = 0; i < to.frames.size(); ++i) {
    const RawPythonFrame& frame = to.chain.frames[i];
    if (frame.code != address) continue;
    const auto offset = offset_of(memory, layout, frame, code);
    if (!offset) return false;
    to.frames[i] = {.function = code.function,
                    .file = code.file,
                    .line = line_of(layout.line_table, code.lines, code.first_line, *offset)};
  }
  return true;
}

// A later attempt reads the code objects again, because their memory may hold something else by then.
std::optional<Attempt> attempt(TargetMemory& memory, const PythonInterpreter& python, const PythonThreadState& thread) {
  PageCache pages(memory);
  auto chain = read_python_frames(pages, python, thread);
  if (!chain) return std::nullopt;
  Attempt result{.chain = std::move(*chain), .frames = {}};
  result.frames.resize(std::min(result.chain.frames.size(), kMaxPythonFrames));
  std::set<std::uint64_t> known;
  for (std::size_t i = 0; i < result.frames.size(); ++i) {
    const std::uint64_t address = result.chain.frames[i].code;
    if (!known.insert(address).second) continue;
    const auto code = read_python_code(pages, python, address);
    if (!code || !fill_frames(pages, python.layout, *code, address, result)) return std::nullopt;
  }
  return result;
}

std::string left_out(const Attempt& done) {
  if (done.chain.is_cut) return fmt::format("only the {} inner frames are shown", kMaxPythonFrames);
  const std::size_t missing = done.chain.frames.size() - done.frames.size();
  return missing == 0 ? "" : fmt::format("{} outer frames are left out", missing);
}

// Returns how many outer frames of the chains are equal. At the next frame inwards, the thread may only have gone on
// within the same call; that frame counts as well.
std::size_t common_outer(const PythonFrameChain& first, const PythonFrameChain& second) {
  if (first.is_cut || second.is_cut) return 0;
  const auto [one, two] =
      std::mismatch(first.frames.rbegin(), first.frames.rend(), second.frames.rbegin(), second.frames.rend());
  auto count = static_cast<std::size_t>(one - first.frames.rbegin());
  if (one != first.frames.rend() && two != second.frames.rend() && one->address == two->address &&
      one->code == two->code) {
    ++count;
  }
  return count;
}

// Keeps only the `common` outer frames, which stayed while the rest of the stack changed.
PythonStack moving_stack(pid_t tid, Attempt last, std::size_t common) {
  PythonStack stack;
  stack.tid = tid;
  const std::size_t total = last.chain.frames.size();
  const std::string missing = left_out(last);
  const std::size_t dropped = std::min(total - std::min(common, total), last.frames.size());
  last.frames.erase(last.frames.begin(), last.frames.begin() + static_cast<std::ptrdiff_t>(dropped));
  stack.frames = std::move(last.frames);
  stack.has_moved = common < total;
  if (common == 0) {
    stack.problem = "it ran while it was read: no frame stayed";
    return stack;
  }
  stack.problem = stack.frames.empty() ? "it ran while it was read: only frames stayed that are too far out"
                                       : "it ran while it was read: it is in the innermost frame shown, or was called "
                                         "from there";
  if (!missing.empty()) stack.problem += "; " + missing;
  return stack;
}

// Spins for up to 4 µs, which is more than a turn of a short loop takes.
void wait_for_another_moment(std::minstd_rand& random) {
  const std::chrono::nanoseconds span(std::uniform_int_distribution<int>(0, 4000)(random));
  const auto end = std::chrono::steady_clock::now() + span;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Reads the frames of a running thread again. Returns how many outer frames stayed, or nullopt if nothing changed.
//
// A reading may mix two moments. For a thread in a short loop, the next readings may mix the same two moments, because
// they keep pace with the loop: ten readings in a row were equal and wrong once in 20,000 tries. Waits of random length
// prevent that.
std::optional<std::size_t> frames_that_stay(TargetMemory& memory, const PythonInterpreter& python,
                                            const PythonThreadState& thread, const PythonFrameChain& chain) {
  std::minstd_rand random(static_cast<std::uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  for (int i = 1; i < kEqualReadings; ++i) {
    wait_for_another_moment(random);
    PageCache pages(memory);
    const auto again = read_python_frames(pages, python, thread);
    if (!again) return 0;
    if (*again != chain) return common_outer(chain, *again);
  }
  return std::nullopt;
}

PythonStack read_thread(TargetMemory& memory, const PythonInterpreter& python, const PythonThreadState& thread) {
  std::optional<Attempt> last;
  std::size_t common = 0;
  for (int i = 0; i < kAttempts; ++i) {
    const auto asleep = thread.tid == 0 ? std::nullopt : memory.sleep_mark(thread.tid);
    auto read = attempt(memory, python, thread);
    if (!read) continue;
    const bool has_slept = asleep && memory.sleep_mark(thread.tid) == asleep;
    const auto stayed = has_slept ? std::nullopt : frames_that_stay(memory, python, thread, read->chain);
    if (!stayed) {
      std::string problem = left_out(*read);
      return {.tid = thread.tid, .frames = std::move(read->frames), .problem = std::move(problem)};
    }
    last = std::move(read);
    common = *stayed;
  }
  if (last) return moving_stack(thread.tid, std::move(*last), common);
  return {.tid = thread.tid, .frames = {}, .problem = "its frames cannot be read, or changed too fast"};
}

}  // namespace

PythonStacks read_python_stacks(TargetMemory& memory, const PythonInterpreter& python,
                                const std::map<pid_t, pid_t>& tids) {
  PythonStacks stacks;
  stacks.version = python.version;
  std::optional<PythonThreadList> list;
  for (int i = 0; i < kAttempts && !list; ++i) {
    PageCache pages(memory);
    list = read_python_threads(pages, python, tids);
  }
  if (!list) {
    stacks.problem = "its list of Python threads cannot be read, or changed too fast";
    return stacks;
  }
  if (list->threads.empty()) stacks.problem = "its Python is starting or ending";
  if (list->is_cut) {
    stacks.problem = fmt::format("only {} Python threads of at most {} interpreters are shown", list->threads.size(),
                                 kMaxPythonInterpreters);
  }
  std::size_t text = 0;
  for (const PythonThreadState& thread : list->threads) {
    if (text > kMaxPythonText) {
      stacks.problem = fmt::format("only {} of {} Python threads are shown: their stacks are too long",
                                   stacks.threads.size(), list->threads.size());
      break;
    }
    const PythonStack& stack = stacks.threads.emplace_back(read_thread(memory, python, thread));
    for (const PythonFrame& frame : stack.frames) text += frame.function.size() + frame.file.size();
  }
  return stacks;
}

}  // namespace muster::agent::stacks
