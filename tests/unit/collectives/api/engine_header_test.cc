// muster/engine.h over libmuster.so: a world of this process alone.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <muster/engine.h>

namespace {

class EngineHeaderTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name : {"MUSTER_SESSION_DIR", "MUSTER_RENDEZVOUS"}) unsetenv(name);
    ASSERT_EQ(muster_init(nullptr, &world_, nullptr), MUSTER_OK);
    ASSERT_EQ(muster_engine_start(muster_world_comm(world_), 1, &engine_, nullptr), MUSTER_OK);
  }
  void TearDown() override {
    if (engine_ != nullptr) muster_engine_shut_down(engine_, 10);
    muster_engine_free(engine_);
    muster_finalize(world_);
  }

  muster_submission submission(muster_kind kind) const {
    return {.size = sizeof(muster_submission),
            .name = "tensor",
            .kind = kind,
            .op = MUSTER_SUM,
            .root = 0,
            .count = 1,
            .tensors = &tensor_,
            .prescale = 1,
            .postscale = 1,
            .splits = splits_.data(),
            .on_gpu = 0,
            .stream = nullptr,
            .wire = MUSTER_WIRE_SAME,
            .allocate = nullptr,
            .context = nullptr,
            .alone = 0};
  }
  muster_code finish(const muster_submission& submission, muster_ticket** kept = nullptr) {
    muster_ticket* ticket = nullptr;
    if (const muster_code code = muster_engine_submit(engine_, &submission, &ticket, &error_)) return code;
    const muster_code code = muster_ticket_wait(ticket, 60, nullptr);
    EXPECT_EQ(muster_ticket_is_done(ticket), 1);
    if (kept != nullptr) {
      *kept = ticket;
    } else {
      muster_ticket_free(ticket);
    }
    return code;
  }
  std::string take_error() {
    const std::string message = muster_error_message(error_);
    muster_error_free(error_);
    error_ = nullptr;
    return message;
  }

  muster_world* world_ = nullptr;
  muster_engine* engine_ = nullptr;
  muster_error* error_ = nullptr;
  const std::vector<float> in_{1, 2, 3, 4, 5, 6};
  std::vector<float> out_ = std::vector<float>(6);
  const std::array<std::int64_t, 2> shape_{3, 2};
  const std::array<std::int64_t, 1> splits_{3};
  muster_tensor tensor_{in_.data(), out_.data(), shape_.data(), 2, MUSTER_FLOAT32};
};

TEST_F(EngineHeaderTest, WhatIsWrittenInPlaceOfTheCallers) {
  muster_submission scaled = submission(MUSTER_ALLREDUCE);
  scaled.postscale = 3;
  EXPECT_EQ(finish(scaled), MUSTER_OK);
  EXPECT_EQ(out_, (std::vector<float>{3, 6, 9, 12, 15, 18}));
  EXPECT_EQ(finish(submission(MUSTER_BROADCAST)), MUSTER_OK);
  EXPECT_EQ(out_, in_);
  out_.assign(6, 0);
  EXPECT_EQ(finish(submission(MUSTER_ADASUM)), MUSTER_OK);
  EXPECT_EQ(out_, in_);
}

TEST_F(EngineHeaderTest, WhatTheEngineMakesBelongsToTheTicket) {
  for (const muster_kind kind : {MUSTER_ALLGATHER, MUSTER_REDUCESCATTER, MUSTER_ALLTOALL}) {
    muster_ticket* ticket = nullptr;
    ASSERT_EQ(finish(submission(kind), &ticket), MUSTER_OK) << kind;
    muster_output output{};
    ASSERT_EQ(muster_ticket_output(ticket, 0, &output), MUSTER_OK) << kind;
    EXPECT_EQ(output.dimensions, 2);
    EXPECT_EQ(output.shape[0], 3);
    EXPECT_EQ(output.type, MUSTER_FLOAT32);
    EXPECT_EQ(std::memcmp(output.data, in_.data(), 6 * sizeof(float)), 0) << kind;
    EXPECT_EQ(muster_ticket_output(ticket, 1, &output), MUSTER_INVALID);
    if (kind == MUSTER_ALLTOALL) {
      EXPECT_EQ(muster_ticket_received_splits(ticket)[0], 3);
    }
    muster_ticket_free(ticket);
  }
}

TEST_F(EngineHeaderTest, ABufferBelongsToTheTicketAlsoAfterTheEngine) {
  tensor_ = {.in = nullptr, .out = nullptr, .shape = tensor_.shape, .dimensions = 1, .type = MUSTER_UINT8};
  muster_ticket* ticket = nullptr;
  ASSERT_EQ(finish(submission(MUSTER_BUFFER), &ticket), MUSTER_OK);
  muster_output output{};
  ASSERT_EQ(muster_ticket_output(ticket, 0, &output), MUSTER_OK);
  const auto bytes = static_cast<std::size_t>(output.shape[0]);
  void* const data = const_cast<void*>(output.data);
  ASSERT_NE(data, nullptr);
  std::memset(data, 7, bytes);
  tensor_ = {.in = data, .out = data, .shape = output.shape, .dimensions = 1, .type = MUSTER_UINT8};
  muster_submission alone = submission(MUSTER_ALLREDUCE);
  alone.alone = 1;
  EXPECT_EQ(finish(alone), MUSTER_OK);
  alone.kind = MUSTER_BROADCAST;
  EXPECT_EQ(finish(alone), MUSTER_INVALID);
  EXPECT_NE(take_error().find("only an allreduce"), std::string::npos);
  tensor_.type = MUSTER_FLOAT32;
  EXPECT_EQ(finish(submission(MUSTER_BUFFER)), MUSTER_INVALID);
  EXPECT_NE(take_error().find("a buffer is one tensor of uint8"), std::string::npos);
  muster_engine_free(engine_);
  engine_ = nullptr;
  std::memset(data, 8, bytes);
  muster_ticket_free(ticket);
}

TEST_F(EngineHeaderTest, BarrierAndJoinHaveNoTensors) {
  for (const muster_kind kind : {MUSTER_BARRIER, MUSTER_JOIN}) {
    muster_submission none = submission(kind);
    none.count = 0;
    muster_ticket* ticket = nullptr;
    ASSERT_EQ(finish(none, &ticket), MUSTER_OK);
    EXPECT_EQ(muster_ticket_last_joined(ticket), kind == MUSTER_JOIN ? 0 : -1);
    muster_ticket_free(ticket);
  }
}

TEST_F(EngineHeaderTest, SubmissionsOfEarlierVersionsAreTaken) {
  for (const std::size_t size : {offsetof(muster_submission, on_gpu), offsetof(muster_submission, wire),
                                 offsetof(muster_submission, allocate), offsetof(muster_submission, alone)}) {
    muster_submission earlier = submission(MUSTER_ALLREDUCE);
    earlier.size = size;
    if (size <= offsetof(muster_submission, wire)) earlier.wire = static_cast<muster_wire>(3);  // not theirs
    EXPECT_EQ(finish(earlier), MUSTER_OK) << size;
  }
}

TEST_F(EngineHeaderTest, WhatCannotBeDoneIsInvalid) {
  const auto refuses = [this](const muster_submission& wrong, const std::string& part) {
    EXPECT_EQ(finish(wrong), MUSTER_INVALID);
    const std::string message = take_error();
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  muster_submission wrong = submission(MUSTER_ALLREDUCE);
  wrong.size = 3;
  refuses(wrong, "size");
  wrong = submission(MUSTER_ALLREDUCE);
  wrong.op = static_cast<muster_op>(7);
  refuses(wrong, "or reduction 7");
  wrong = submission(MUSTER_ALLREDUCE);
  wrong.count = -1;
  refuses(wrong, "'tensor'");
  wrong = submission(MUSTER_ALLREDUCE);
  wrong.wire = MUSTER_WIRE_FLOAT16;
  refuses(wrong, "only float32 on a GPU");
  wrong.wire = static_cast<muster_wire>(3);
  refuses(wrong, "unknown wire type 3");
  wrong = submission(MUSTER_BROADCAST);
  wrong.root = 1;
  refuses(wrong, "the ranks are 0 to 0");
  wrong = submission(MUSTER_ALLTOALL);
  wrong.splits = nullptr;
  refuses(wrong, "0 splits");
  tensor_.out = nullptr;
  refuses(submission(MUSTER_ALLREDUCE), "tensor 0 has no data");
  tensor_.type = static_cast<muster_dtype>(15);
  refuses(submission(MUSTER_ALLREDUCE), "unknown data type 15");
  tensor_.type = MUSTER_FLOAT32;
  tensor_.dimensions = 1000;
  refuses(submission(MUSTER_ALLGATHER), "1000 dimensions");
  EXPECT_EQ(muster_engine_timeline(engine_, "/nonexistent/t.json", 0, nullptr), MUSTER_INVALID);
}

TEST_F(EngineHeaderTest, AForkedChildMayFreeAndNothingElse) {
  const pid_t child = fork();
  if (child == 0) {
    const muster_submission late = submission(MUSTER_ALLREDUCE);
    muster_ticket* ticket = nullptr;
    const bool is_refused = muster_engine_submit(engine_, &late, &ticket, nullptr) == MUSTER_INVALID;
    if (engine_ != nullptr) muster_engine_shut_down(engine_, 10);
    muster_engine_free(engine_);
    muster_finalize(world_);
    _exit(is_refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(finish(submission(MUSTER_ALLREDUCE)), MUSTER_OK);
}

TEST_F(EngineHeaderTest, AfterItsEndTheEngineTakesNothing) {
  muster_engine_shut_down(engine_, 10);
  EXPECT_EQ(finish(submission(MUSTER_ALLREDUCE)), MUSTER_FAILED);
  EXPECT_EQ(muster_error_rank(error_), 0);
  const std::string message = take_error();
  EXPECT_TRUE(message.starts_with("rank 0 (") && message.ends_with(") has shut down")) << message;
}

}  // namespace
