#include "proto/stored_event.h"

#include <chrono>

#include <gtest/gtest.h>

#include "model/job_state.h"

namespace muster::proto::stored_event_test {
namespace {

const base::WallTime kTime{
    std::chrono::duration_cast<base::WallTime::duration>(std::chrono::microseconds(1'700'000'042))};

TEST(StoredEvent, ComesBackWithTheNumberOfTheStore) {
  const std::string bytes = stored_event(model::JobStopping{"rank 1 failed"}, kTime);
  const auto event = event_of_store(bytes, 7);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->sequence(), 7u);
  EXPECT_EQ(event->time().seconds(), 1700);
  EXPECT_EQ(event->time().nanos(), 42'000);
  EXPECT_EQ(event->job_stopping().reason(), "rank 1 failed");
}

TEST(StoredEvent, StatesHaveTheNumbersOfTheModel) {
  const google::protobuf::EnumDescriptor* const states = v1::JobState_descriptor();
  ASSERT_EQ(states->value_count(), static_cast<int>(model::all_job_states().size()) + 1);  // and UNSPECIFIED
  for (const model::JobState state : model::all_job_states()) {
    const auto event = event_of_store(stored_event(model::JobStateChanged{state, "why"}, kTime), 1);
    ASSERT_TRUE(event.ok());
    EXPECT_EQ(v1::JobState_Name(event->job_state_changed().state()),
              fmt::format("JOB_STATE_{}", model::name_of(state)));
    EXPECT_EQ(event->job_state_changed().reason(), "why");
  }
}

TEST(StoredEvent, OtherBytesAreNoEvent) {
  const auto event = event_of_store("\xff\xff\xff", 3);
  ASSERT_FALSE(event.ok());
  EXPECT_EQ(event.status().code(), base::Code::kDataLoss);
  EXPECT_NE(event.status().message().find("event 3"), std::string::npos) << event.status();
}

// Whoever shows it as JSON must be able to.
TEST(StoredEvent, ATimeThatIsNoneIsRefused) {
  for (const auto& [seconds, nanos] :
       {std::pair<std::int64_t, int>{1L << 60, 0}, {-(1L << 60), 0}, {0, -1}, {0, 1 << 30}}) {
    v1::Event event;
    event.mutable_time()->set_seconds(seconds);
    event.mutable_time()->set_nanos(nanos);
    EXPECT_EQ(event_of_store(event.SerializeAsString(), 1).status().code(), base::Code::kDataLoss) << seconds;
  }
}

TEST(StoredEvent, LongTextsAreCut) {
  const std::string text(1 << 20, 'x');
  model::RankEnd end;
  end.kind = model::EndKind::kStartFailed;
  end.detail = text;
  const auto rank = event_of_store(stored_event(end, kTime), 1);
  EXPECT_EQ(rank->rank_ended().detail().size(), kLongestDetail);
  const auto stopping = event_of_store(stored_event(model::JobStopping{text}, kTime), 1);
  EXPECT_EQ(stopping->job_stopping().reason().size(), kLongestReason);
  const auto moved = event_of_store(stored_event(model::JobStateChanged{model::JobState::kFailed, text}, kTime), 1);
  EXPECT_EQ(moved->job_state_changed().reason().size(), kLongestReason);
}

TEST(StoredEvent, AnyEndOfAJobIsShortEnough) {
  model::JobEnded ended;
  ended.exit_code = 127;
  ended.root_cause_rank = 777;
  for (int rank = 0; rank < 3'000; ++rank) {
    model::RankEnd& end = ended.ends.emplace_back();
    end.rank = rank;
    end.detail = std::string(400, 'x');
  }
  const auto whole = event_of_store(stored_event(ended, kTime), 1);
  EXPECT_EQ(whole->job_ended().ends_size(), 3'000);
  ended.ends.resize(100'000, ended.ends.back());
  ended.stderr_tail = {"last words"};
  const auto many = event_of_store(stored_event(ended, kTime), 1);
  ASSERT_EQ(many->job_ended().ends_size(), 1);
  EXPECT_EQ(many->job_ended().ends(0).rank(), 777);
  EXPECT_EQ(many->job_ended().stderr_tail_size(), 1);
  ended.stderr_tail.assign(100, std::string(100'000, 'y'));
  ended.unclean_hosts.assign(100'000, std::string(100, 'n'));
  const std::string bytes = stored_event(ended, kTime);
  EXPECT_LT(bytes.size(), kLongestEnd + 1024);
  EXPECT_EQ(event_of_store(bytes, 1)->job_ended().exit_code(), 127);
}

// What a newer launcherd has written is handed on as it is.
TEST(StoredEvent, UnknownFieldsAreKept) {
  v1::Event newer;
  newer.GetReflection()->MutableUnknownFields(&newer)->AddVarint(999, 5);
  const auto event = event_of_store(newer.SerializeAsString(), 1);
  ASSERT_TRUE(event.ok());
  EXPECT_EQ(event->GetReflection()->GetUnknownFields(*event).field_count(), 1);
}

TEST(StoredEvent, TextThatIsNotUtf8KeepsWhatIs) {
  const auto event = event_of_store(stored_event(model::JobStopping{"bad \xff end"}, kTime), 1);
  ASSERT_TRUE(event.ok());
  EXPECT_EQ(event->job_stopping().reason(), "bad \xef\xbf\xbd end");
}

}  // namespace
}  // namespace muster::proto::stored_event_test
