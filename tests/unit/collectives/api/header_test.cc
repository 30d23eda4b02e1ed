// muster.hpp over libmuster.so: a world of this process alone, where every collective is the identity.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <muster/muster.hpp>

namespace {

using Numbers = std::vector<float>;

class HeaderTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name : {"MUSTER_SESSION_DIR", "MUSTER_RENDEZVOUS"}) unsetenv(name);
    auto joined = muster::World::join();
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    world_.emplace(std::move(joined).value());
  }
  muster::Communicator all() const { return world_->communicator(); }

  const Numbers in_{1, 2, 3};
  Numbers out_ = Numbers(3);
  const std::array<std::size_t, 1> counts_{3};
  std::optional<muster::World> world_;
};

TEST_F(HeaderTest, BlockingCalls) {
  const muster::Communicator comm = all();
  const auto expect = [this](const muster::Status& done) {
    EXPECT_TRUE(done.ok()) << done.message();
    EXPECT_EQ(out_, in_);
    out_.assign(3, 0);
  };
  const std::span<const float> in(in_);
  expect(comm.allreduce(in, out_.data(), muster::Op::sum));
  expect(comm.reduce(in, out_.data(), muster::Op::max, 0));
  expect(comm.reduce_scatter(in_.data(), std::span(out_), muster::Op::min));
  expect(comm.reduce_scatterv(in_.data(), out_.data(), counts_, muster::Op::prod));
  expect(comm.allgather(in, out_.data()));
  expect(comm.allgatherv(in_.data(), out_.data(), counts_));
  expect(comm.gather(in, out_.data(), 0));
  expect(comm.scatter(in_.data(), std::span(out_), 0));
  expect(comm.alltoall(in_.data(), out_.data(), 3));
  expect(comm.alltoallv(in_.data(), counts_, out_.data(), counts_));
  out_ = in_;
  expect(comm.broadcast(std::span(out_), 0));
  out_ = in_;
  expect(comm.allreduce(std::span(out_), muster::Op::avg));
  EXPECT_TRUE(comm.barrier().ok());
}

TEST_F(HeaderTest, RequestsAreDoneOnceTheyWereWaitedFor) {
  const muster::Communicator comm = all();
  const auto expect = [this](muster::Result<muster::Request> started) {
    ASSERT_TRUE(started.ok()) << started.status().message();
    const muster::Status done = started.value().wait();
    EXPECT_TRUE(done.ok()) << done.message();
    EXPECT_TRUE(started.value().test());
    EXPECT_TRUE(started.value().wait_for(0).ok());
    EXPECT_EQ(out_, in_);
    out_.assign(3, 0);
  };
  const std::span<const float> in(in_);
  expect(comm.start_allreduce(in, out_.data(), muster::Op::sum));
  expect(comm.start_reduce(in, out_.data(), muster::Op::max, 0));
  expect(comm.start_reduce_scatter(in_.data(), std::span(out_), muster::Op::min));
  expect(comm.start_reduce_scatterv(in_.data(), out_.data(), counts_, muster::Op::prod));
  expect(comm.start_allgather(in, out_.data()));
  expect(comm.start_allgatherv(in_.data(), out_.data(), counts_));
  expect(comm.start_gather(in, out_.data(), 0));
  expect(comm.start_scatter(in_.data(), std::span(out_), 0));
  expect(comm.start_alltoall(in_.data(), out_.data(), 3));
  expect(comm.start_alltoallv(in_.data(), counts_, out_.data(), counts_));
  out_ = in_;
  expect(comm.start_broadcast(std::span(out_), 0));
  out_ = in_;
  expect(comm.start_allreduce(std::span(out_), muster::Op::avg));
  out_ = in_;
  expect(comm.start_barrier());
}

TEST_F(HeaderTest, MessagesNeedAnotherRank) {
  const muster::Communicator comm = all();
  EXPECT_EQ(comm.send(std::span(in_), 0).code(), MUSTER_INVALID);
  EXPECT_EQ(comm.recv(std::span(out_), 1).code(), MUSTER_INVALID);
  auto sent = comm.start_send(std::span(in_), 0, 5);
  ASSERT_TRUE(sent.ok());
  EXPECT_EQ(sent.value().wait().code(), MUSTER_INVALID);
  auto received = comm.start_recv(std::span(out_), 0, 5);
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(received.value().wait().code(), MUSTER_INVALID);
  EXPECT_EQ(comm.world_rank(0), 0);
  EXPECT_EQ(comm.world_rank(1), -1);
}

TEST_F(HeaderTest, BuffersAndCommunicatorsHaveOwners) {
  const muster::Communicator comm = all();
  auto buffer = comm.allocate<double>(100);
  ASSERT_TRUE(buffer.ok()) << buffer.status().message();
  muster::Buffer<double> moved = std::move(buffer).value();
  EXPECT_EQ(moved.span().size(), 100U);
  EXPECT_TRUE(comm.allreduce(moved.span(), muster::Op::sum).ok());
  auto half = comm.split(1, 0);
  ASSERT_TRUE(half.ok() && half.value().has_value());
  EXPECT_EQ(half.value()->size(), 1);
  auto none = comm.split(-1, 0);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none.value().has_value());
  auto left = comm.shrink();
  ASSERT_TRUE(left.ok());
  EXPECT_TRUE(left.value().barrier().ok());
}

TEST_F(HeaderTest, BuffersThatCannotBeAreRefused) {
  const muster::Communicator comm = all();
  EXPECT_EQ(comm.allocate<double>(SIZE_MAX / 4).status().code(), MUSTER_NO_MEMORY);
  EXPECT_EQ(comm.allocate<char>(std::size_t{1} << 63).status().code(), MUSTER_NO_MEMORY);
  EXPECT_TRUE(comm.barrier().ok());
}

TEST_F(HeaderTest, AForkedChildLeavesTheParentsWorldAlone) {
  const muster::Communicator comm = all();
  auto buffer = comm.allocate<double>(100);
  ASSERT_TRUE(buffer.ok());
  buffer.value().data()[99] = 7;
  auto started = comm.start_barrier();  // with a thread
  ASSERT_TRUE(started.ok() && started.value().wait().ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(30);  // instead of waiting for threads that are not there
    { const muster::Buffer<double> its_own = std::move(buffer).value(); }
    { const muster::Request its_own = std::move(started).value(); }
    world_.reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(buffer.value().data()[99], 7);
  EXPECT_TRUE(comm.barrier().ok());
}

// A store of one text, through which the threads of a test meet.
struct TextStore {
  std::mutex mutex;
  std::string text;
  bool is_over = false;
};

int publish(void* context, const char* text, size_t bytes) {
  auto& store = *static_cast<TextStore*>(context);
  const std::lock_guard lock(store.mutex);
  store.text.assign(text, bytes);
  return 0;
}

long find(void* context, char* text, size_t room) {
  auto& store = *static_cast<TextStore*>(context);
  const std::lock_guard lock(store.mutex);
  if (store.text.size() > room) return -1;
  std::memcpy(text, store.text.data(), store.text.size());
  return static_cast<long>(store.text.size());
}

int is_over(void* context) {
  auto& store = *static_cast<TextStore*>(context);
  const std::lock_guard lock(store.mutex);
  return store.is_over ? 1 : 0;
}

muster_code join_by(TextStore& store, int rank, int size, muster_world** world) {
  const muster_meeting meeting{rank, size, &store, &publish, &find, &is_over};
  const muster_options options{sizeof options, 20, 20, &meeting};
  return muster_init(&options, world, nullptr);
}

TEST(MeetingOptionsTest, ThreadsMeetThroughAStoreOfTheirs) {
  for (const int size : {1, 2, 3}) {
    TextStore store;
    std::vector<std::thread> ranks;
    std::vector<float> sums(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([&, rank] {
        muster_world* world = nullptr;
        ASSERT_EQ(join_by(store, rank, size, &world), MUSTER_OK);
        EXPECT_EQ(muster_comm_rank(muster_world_comm(world)), rank);
        float sum = 1;
        EXPECT_EQ(muster_allreduce(muster_world_comm(world), &sum, &sum, 1, MUSTER_FLOAT32, MUSTER_SUM, nullptr),
                  MUSTER_OK);
        sums[static_cast<std::size_t>(rank)] = sum;
        muster_finalize(world);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    for (const float sum : sums) EXPECT_EQ(sum, static_cast<float>(size));
  }
}

TEST(MeetingOptionsTest, JoinEndsOnceTheWorldCanNotForm) {
  TextStore store;
  store.is_over = true;
  muster_world* world = nullptr;
  EXPECT_EQ(join_by(store, 1, 2, &world), MUSTER_RANK_DIED);
  EXPECT_EQ(join_by(store, 0, 2, &world), MUSTER_RANK_DIED);
  EXPECT_EQ(world, nullptr);
}

TEST(MeetingOptionsTest, WrongMeetingsAreRefused) {
  TextStore store;
  muster_world* world = nullptr;
  EXPECT_EQ(join_by(store, 2, 2, &world), MUSTER_INVALID);
  EXPECT_EQ(join_by(store, 0, 0, &world), MUSTER_INVALID);
  const muster_meeting incomplete{0, 2, &store, &publish, nullptr, nullptr};
  const muster_options options{sizeof options, 0, 0, &incomplete};
  EXPECT_EQ(muster_init(&options, &world, nullptr), MUSTER_INVALID);
}

TEST(MeetingOptionsTest, OptionsOfOlderProgramsEndBeforeIt) {
  const muster_meeting unused{5, 1, nullptr, nullptr, nullptr, nullptr};
  muster_options options{offsetof(muster_options, meeting), 0, 0, &unused};
  muster_world* world = nullptr;
  ASSERT_EQ(muster_init(&options, &world, nullptr), MUSTER_OK);
  muster_finalize(world);
  options.size -= 1;
  EXPECT_EQ(muster_init(&options, &world, nullptr), MUSTER_INVALID);
}

}  // namespace
