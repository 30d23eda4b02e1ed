// Feeds memory to the reader of Python stacks: an image of a program, as FakePython of the unit tests makes it. The
// reader must end, stay within its limits, and return texts that are UTF-8, whatever the memory holds and however it
// changes meanwhile.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "agent/stacks/python_code.h"
#include "agent/stacks/python_stack.h"
#include "agent/stacks/python_walk.h"
#include "base/strings.h"

namespace {

using namespace muster::agent;

constexpr std::uint64_t kBase = 0x400000;
constexpr std::size_t kPeriodAt = 9;  // an unused byte of the ELF header

// The image at kBase. It repeats itself elsewhere, so that most addresses can be read.
class FuzzedMemory final : public TargetMemory {
 public:
  explicit FuzzedMemory(std::span<const std::uint8_t> image) : image_(image.begin(), image.end()) {}

  bool read(std::uint64_t address, std::span<std::byte> to) override {
    ++reads_;
    const unsigned period = image_[kPeriodAt % image_.size()];
    if (period != 0 && reads_ % period == 0) image_[reads_ * 7 % image_.size()] ^= static_cast<std::uint8_t>(reads_);
    if (address < 4096) return false;
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::byte{image_[(address - kBase + i) % image_.size()]};
    return true;
  }
  std::optional<std::uint64_t> sleep_mark(pid_t) override {
    const unsigned period = image_[kPeriodAt % image_.size()];
    return period == 0 ? std::optional<std::uint64_t>(0) : std::nullopt;
  }

 private:
  std::vector<std::uint8_t> image_;
  std::uint64_t reads_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  FuzzedMemory memory({data, size});
  PageCache pages(memory);
  const auto elf = LoadedElf::open(pages, kBase);
  if (!elf) return 0;
  const auto python = find_python(pages, *elf);
  if (!python.ok()) return 0;
  const PythonStacks stacks = read_python_stacks(memory, *python, {{4242, 1}});
  if (stacks.threads.size() > kMaxPythonThreads) std::abort();
  for (const PythonStack& stack : stacks.threads) {
    if (stack.tid != 0 && stack.tid != 1) std::abort();
    if (stack.frames.size() > kMaxPythonFrames) std::abort();
    for (const PythonFrame& frame : stack.frames) {
      if (frame.line < 0 || !muster::base::is_utf8(frame.function) || !muster::base::is_utf8(frame.file)) std::abort();
      if (frame.function.size() > 4 * kMaxPythonName + 3 || frame.file.size() > 4 * kMaxPythonFile + 3) std::abort();
    }
  }
  return 0;
}
