// The whole of EnvStaging. Read it in this order: pack, packed, find, answered, found, send, sent, unpack, finish.
#include "launcherd/stage/env_staging.h"

#include <algorithm>
#include <utility>

#include "base/ids.h"
#include "base/strings.h"
#include "launcherd/stage/byte_count.h"

namespace muster::launcherd::inline stage {
namespace {

using base::Result;
using base::Status;

}  // namespace

EnvStaging::EnvStaging(base::Loop& loop, Source source, std::vector<Staging::Host> hosts, std::string token,
                       Staging::Events events, StagingLimits limits)
    : loop_(loop),
      source_(std::move(source)),
      hosts_(std::move(hosts)),
      token_(std::move(token)),
      events_(std::move(events)),
      limits_(limits) {
  // Begin at a random number, so that late answers to an earlier launcherd's orders do not match.
  std::uint32_t start = 0;
  base::random_bytes(&start, sizeof start);
  next_id_ = (std::uint64_t{start} << 16U) + 1;
}

std::string EnvStaging::shown() const {
  return fmt::format("the environment {}", base::printable(source_.path));
}

void EnvStaging::start() {
  periods_ = loop_.every(limits_.period, [this] { each_period(); });
  auto thread = base::DiskThread::start(loop_);
  if (!thread.ok()) return fail(thread.status().with_context("--stage-env"));
  thread_ = std::move(*thread);
  pack();
}

void EnvStaging::pack() {
  phase_ = Phase::kPack;
  thread_->add([this, source = source_, progress = progress_](const std::atomic<bool>& stop) -> base::Loop::Task {
    auto packed = std::make_shared<Result<PackedEnv>>(
        pack_environment(source.path, source.never_staged, source.cache, *progress, stop));
    return [this, packed] { this->packed(std::move(*packed)); };
  });
}

void EnvStaging::packed(Result<PackedEnv> packed) {
  if (!packed.ok()) return fail(packed.status());
  packed_ = std::make_shared<PackedEnv>(*std::move(packed));
  if (packed_->is_new) {
    events_.say(fmt::format("packed {}: {} files, {}, as {}", shown(), packed_->files, format_bytes(packed_->bytes),
                            format_bytes(packed_->packed_bytes)));
  }
  // After a repair the hosts have answered already. The id is the same, unless the environment has changed meanwhile.
  find();
}

void EnvStaging::find() {
  phase_ = Phase::kFind;
  without_.clear();
  silent_ = {};
  for (const Staging::Host& host : hosts_) {
    v1::StageOrder question;
    question.mutable_find_environment()->set_id(packed_->archive.name.id);
    order(host, std::move(question));
  }
}

void EnvStaging::order(const Staging::Host& host, v1::StageOrder order) {
  order.set_id(next_id_++);
  unanswered_[host.agent] = order.id();
  v1::LauncherMessage message;
  *message.mutable_stage_order() = std::move(order);
  events_.send(host.agent, std::move(message));
}

void EnvStaging::answered(int agent, const v1::StageAnswer& answer) {
  if (phase_ == Phase::kSend && staging_ != nullptr) return staging_->answered(agent, answer);
  if (phase_ != Phase::kFind && phase_ != Phase::kUnpack) return;
  const auto asked = unanswered_.find(agent);
  if (asked == unanswered_.end() || asked->second != answer.id()) return;  // to an earlier launcherd
  count_answer(agent, answer);
}

void EnvStaging::count_answer(int agent, const v1::StageAnswer& answer) {
  const auto host = std::ranges::find(hosts_, agent, &Staging::Host::agent);
  unanswered_.erase(agent);
  silent_ = {};
  if (!answer.error().empty()) {
    return fail(base::failed_precondition("{}: --stage-env: {}", host->name, base::printable(answer.error())));
  }
  if (phase_ == Phase::kFind && answer.environment().empty()) without_.push_back(*host);
  if (!unanswered_.empty()) return;
  phase_ == Phase::kFind ? found() : finish();
}

void EnvStaging::found() {
  if (without_.empty()) return finish();
  std::ranges::sort(without_, {}, &Staging::Host::agent);
  if (packed_->is_new) return send();
  // The disk here may have damaged what was packed earlier.
  phase_ = Phase::kCheck;
  thread_->add([this, packed = packed_](const std::atomic<bool>& stop) -> base::Loop::Task {
    return [this, is_right = EnvCache::check(packed->archive, &stop)] {
      if (!is_right.ok()) return fail(is_right.status().with_context("--stage-env"));
      if (*is_right) return send();
      if (was_repaired_) {
        return fail(base::data_loss("--stage-env: {} is damaged as soon as it is written: check the disk",
                                    base::printable(packed_->archive.path)));
      }
      was_repaired_ = true;
      events_.note(fmt::format("{} was damaged; it is packed again", base::printable(packed_->archive.path)));
      pack();
    };
  });
}

void EnvStaging::send() {
  phase_ = Phase::kSend;
  const std::string name = packed_->archive.name.id + ".pack";
  Staging::Events events = events_;
  // The Staging is calling, so destroy it later.
  events.done = [this](const Status& status) { loop_.post(gate_.wrap([this, status] { sent(status); })); };
  staging_ = std::make_unique<Staging>(loop_, std::vector<model::StagedPath>{{packed_->archive.path, "/" + name}},
                                       without_, token_, "", std::move(events), limits_, source_.path);
  staging_->start();
}

void EnvStaging::sent(const Status& status) {
  staging_.reset();
  if (!status.ok()) return fail(status);
  unpack();
}

void EnvStaging::unpack() {
  phase_ = Phase::kUnpack;
  silent_ = {};
  unpack_began_ = std::chrono::steady_clock::now();
  for (const Staging::Host& host : without_) {
    v1::StageOrder wanted;
    wanted.mutable_unpack_environment()->set_id(packed_->archive.name.id);
    order(host, std::move(wanted));
  }
}

void EnvStaging::finish() {
  const bool unpacked = phase_ == Phase::kUnpack;
  phase_ = Phase::kOver;
  periods_.cancel();
  if (unpacked) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - unpack_began_;
    events_.say(fmt::format("unpacked {} on {} of {} hosts in {:.1f} s", shown(), without_.size(), hosts_.size(),
                            took.count()));
  } else {
    events_.say(fmt::format("{} is on all hosts already", shown()));
  }
  events_.done(base::ok_status());
}

v1::LaunchEnvironment EnvStaging::environment() const {
  v1::LaunchEnvironment environment;
  environment.set_id(packed_->archive.name.id);
  for (const std::string& prefix : packed_->prefixes) environment.add_prefixes(prefix);
  return environment;
}

void EnvStaging::each_period() {
  report_progress();
  if (phase_ != Phase::kFind && phase_ != Phase::kUnpack) return;
  silent_ += limits_.period;
  // The disk of a host writes the environment once.
  const std::uint64_t bytes = phase_ == Phase::kUnpack ? packed_->bytes : 0;
  if (silent_ <= limits_.silence + std::chrono::seconds(bytes / limits_.slowest_disk)) return;
  const auto host = std::ranges::find(hosts_, unanswered_.begin()->first, &Staging::Host::agent);
  fail(base::deadline_exceeded(
      "{}: --stage-env: no answer for {} s about its environments: check that the disk there works, or leave the host "
      "out",
      host->name, std::chrono::duration_cast<std::chrono::seconds>(silent_).count()));
}

void EnvStaging::report_progress() {
  if (phase_ == Phase::kPack) {
    const std::uint64_t total = progress_->total;
    events_.say(total == 0
                    ? fmt::format("listing {}", shown())
                    : fmt::format("packing {}: {} of {}", shown(), format_bytes(progress_->done), format_bytes(total)));
  }
  if (phase_ == Phase::kUnpack) {
    events_.say(fmt::format("unpacking {}: {} of {} hosts are done", shown(), without_.size() - unanswered_.size(),
                            without_.size()));
  }
}

void EnvStaging::fail(Status why) {
  if (phase_ == Phase::kOver) return;
  phase_ = Phase::kOver;
  periods_.cancel();
  events_.done(std::move(why));
}

}  // namespace muster::launcherd::stage
