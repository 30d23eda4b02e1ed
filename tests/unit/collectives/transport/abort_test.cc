#include "collectives/transport/abort.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <new>
#include <string>

namespace muster::collectives::abort_test {
namespace {

using base::Code;

TEST(AbortRecordTest, TheFirstOneWins) {
  AbortRecord record{};
  EXPECT_FALSE(record.is_raised());
  EXPECT_TRUE(record.raise({Code::kUnavailable, 3, "n2", "rank 3 (n2) was killed by signal 9"}));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(record.raise({Code::kAborted, i, "n1", "another"}));
  const Failure failure = record.read();
  EXPECT_EQ(failure.code, Code::kUnavailable);
  EXPECT_EQ(failure.rank, 3);
  EXPECT_EQ(failure.host, "n2");
  EXPECT_EQ(failure.message, "rank 3 (n2) was killed by signal 9");
}

TEST(FailureTest, IsTheSameAfterItsWayAsText) {
  const Failure failure{Code::kUnavailable, 3, "n2", "rank 3 (n2):\nwas killed"};
  const Failure read = decode_failure(encode(failure));
  EXPECT_EQ(read.code, failure.code);
  EXPECT_EQ(read.rank, failure.rank);
  EXPECT_EQ(read.host, failure.host);
  EXPECT_EQ(read.message, failure.message);
  for (const char* const text : {"", "14", "14\n3", "14\n3\nn2", "99\nx\nn2\nmessage"}) {
    EXPECT_EQ(decode_failure(text).code, Code::kAborted) << text;
    EXPECT_EQ(decode_failure(text).rank, -1) << text;
  }
}

TEST(AbortRecordTest, LongTextsAreCut) {
  AbortRecord record{};
  ASSERT_TRUE(record.raise({Code::kAborted, 1, std::string(1000, 'h'), std::string(1000, 'm')}));
  EXPECT_EQ(record.read().host, std::string(63, 'h'));
  EXPECT_EQ(record.read().message, std::string(439, 'm'));
}

// A rank that is killed while it raises: here by a message whose memory cannot be read.
TEST(AbortRecordTest, ARankThatEndsMeanwhileDoesNotStandInTheWay) {
  void* const memory = mmap(nullptr, sizeof(AbortRecord), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const record = new (memory) AbortRecord{};
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (const int number : {SIGSEGV, SIGBUS}) signal(number, [](int) { _exit(9); });
    const Failure failure{Code::kUnavailable, 1, "n1", std::string(std::size_t{1} << 20, 'm')};
    const auto page = reinterpret_cast<std::uintptr_t>(failure.message.data()) / 4096 * 4096;
    if (mprotect(reinterpret_cast<void*>(page), 4096, PROT_NONE) == 0) record->raise(failure);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 9) << status;
  EXPECT_FALSE(record->is_raised());
  EXPECT_TRUE(record->raise({Code::kAborted, 2, "n1", "rank 2 (n1) gave up"}));
  EXPECT_TRUE(record->is_raised());
  EXPECT_EQ(record->read().message, "rank 2 (n1) gave up");
  munmap(memory, sizeof(AbortRecord));
}

}  // namespace
}  // namespace muster::collectives::abort_test
