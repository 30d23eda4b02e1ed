// What NCCL says (here one that is none: tests/programs/fake_cuda): its lines leave the process when it writes them,
// and its reasons are a part of errors.
#include "collectives/device/nccl_api.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/unique_fd.h"

namespace muster::collectives::device::nccl_api_test {
namespace {

// The C library's stdout as a rank has it: a pipe to the agent, and a buffer in front of it.
class PipedStdout {
 public:
  PipedStdout() {
    std::fflush(stdout);
    kept_.reset(dup(STDOUT_FILENO));
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    read_end_.reset(ends[0]);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    (void)std::setvbuf(stdout, nullptr, _IOFBF, 0);
  }
  ~PipedStdout() {
    std::fflush(stdout);
    dup2(kept_.get(), STDOUT_FILENO);
    (void)std::setvbuf(stdout, nullptr, _IOLBF, 0);
  }
  PipedStdout(const PipedStdout&) = delete;
  PipedStdout& operator=(const PipedStdout&) = delete;
  // What a reader would have if the process were killed now.
  std::string arrived() const {
    std::array<char, 4096> bytes{};
    const ssize_t count = read(read_end_.get(), bytes.data(), bytes.size());
    return {bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
  }

 private:
  base::UniqueFd kept_;
  base::UniqueFd read_end_;
};

class NcclLines : public testing::Test {
 protected:
  NcclLines() { clear(); }
  ~NcclLines() override { clear(); }
  static void clear() {
    for (const char* const name : {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "FAKE_NCCL_FAIL"}) unsetenv(name);
  }
  // What has arrived when NCCL has written, and then this program.
  static std::string arrived() {
    const PipedStdout out;
    const auto nccl = NcclApi::load();
    EXPECT_TRUE(nccl.ok()) << nccl.status();
    NcclUniqueId id{};
    NcclConfig config;
    NcclComm comm = nullptr;
    EXPECT_EQ((*nccl)->get_unique_id(&id), kNcclSuccess);
    EXPECT_EQ((*nccl)->init_rank(&comm, 1, id, 0, &config), kNcclInProgress);
    std::printf("the program's\n");
    std::string text = out.arrived();
    EXPECT_EQ((*nccl)->abort(comm), kNcclSuccess);
    return text;
  }
};

TEST_F(NcclLines, AreOutAtOnceWhereTheUserAsksForThem) {
  setenv("NCCL_DEBUG", "INFO", 1);
  const std::string text = arrived();
  EXPECT_NE(text.find("NCCL INFO ncclCommInitRankConfig\n"), std::string::npos) << text;
  EXPECT_NE(text.find("the program's\n"), std::string::npos) << text;
}

TEST_F(NcclLines, StdoutStaysAsItIsWhereNobodyAsks) {
  EXPECT_EQ(arrived(), "");
  setenv("NCCL_DEBUG", "", 1);
  EXPECT_EQ(arrived(), "");
}

TEST_F(NcclLines, GoWhereTheUserSaysAndStdoutStaysAsItIs) {
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_FILE", "/dev/null", 1);
  EXPECT_EQ(arrived(), "");
}

TEST_F(NcclLines, TheLastErrorIsTheReason) {
  const auto nccl = NcclApi::load();
  ASSERT_TRUE(nccl.ok()) << nccl.status();
  EXPECT_EQ((*nccl)->check(2, "ncclX").message(),
            "ncclX: made to fail by a test (NCCL error 2; NCCL_DEBUG=WARN shows more)");
  setenv("FAKE_NCCL_FAIL", "ncclGetUniqueId", 1);
  NcclUniqueId id{};
  EXPECT_EQ((*nccl)->check((*nccl)->get_unique_id(&id), "ncclGetUniqueId").message(),
            "ncclGetUniqueId: made to fail by a test: no socket interface found (NCCL error 2; NCCL_DEBUG=WARN shows "
            "more)");
  EXPECT_TRUE((*nccl)->check(kNcclInProgress, "ncclX").ok());
}

}  // namespace
}  // namespace muster::collectives::device::nccl_api_test
