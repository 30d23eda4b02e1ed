#include "agent/stacks/target_memory.h"

#include <unistd.h>

#include <gtest/gtest.h>

namespace muster::agent::target_memory_test {
namespace {

TEST(SleepMark, IsTheNumberOfSwitches) {
  const auto status = [](std::string_view state) {
    return fmt::format("Name:\tpython3\nState:\t{}\nvoluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n",
                       state);
  };
  EXPECT_EQ(parse_sleep_mark(status("S (sleeping)")), 42u);
  EXPECT_EQ(parse_sleep_mark(status("D (disk sleep)")), 42u);
  EXPECT_EQ(parse_sleep_mark(status("R (running)")), std::nullopt);
  EXPECT_EQ(parse_sleep_mark("State:\tS (sleeping)\n"), std::nullopt);
  EXPECT_EQ(parse_sleep_mark(""), std::nullopt);
}

TEST(ProcessMemory, IsReadWholeOrNotAtAll) {
  auto fd = ProcessMemory::open_fd(::getpid());
  ASSERT_TRUE(fd.ok()) << fd.status();
  ProcessMemory memory(::getpid(), std::move(*fd));
  const std::uint64_t value = 0x1122334455667788;
  PageCache pages(memory);
  EXPECT_EQ(pages.pointer(reinterpret_cast<std::uint64_t>(&value)), value);
  EXPECT_FALSE(pages.pointer(0));
  EXPECT_FALSE(pages.pointer(UINT64_MAX - 3));
  EXPECT_FALSE(pages.pointer(UINT64_MAX / 2 + 8));
}

TEST(ProcessMemory, OfAnEndedProcessCannotBeOpened) {
  EXPECT_FALSE(ProcessMemory::open_fd(0x3ffffff0).ok());
}

// Remembers what was read.
class CountedMemory final : public TargetMemory {
 public:
  bool read(std::uint64_t, std::span<std::byte> to) override {
    ++reads;
    std::memset(to.data(), reads, to.size());
    return true;
  }
  std::optional<std::uint64_t> sleep_mark(pid_t) override { return 0; }

  int reads = 0;
};

TEST(PageCache, ReadsEachPageOnce) {
  CountedMemory memory;
  PageCache pages(memory);
  EXPECT_EQ(pages.get<std::uint8_t>(4096), 1);
  EXPECT_EQ(pages.get<std::uint8_t>(8191), 1);
  EXPECT_EQ(pages.get<std::uint16_t>(8191), 0x0201);  // reaches into the next page
  EXPECT_EQ(memory.reads, 2);
}

}  // namespace
}  // namespace muster::agent::target_memory_test
