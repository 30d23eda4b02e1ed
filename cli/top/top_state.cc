// Keys and answers of `muster top`.
// Read apply() and take() first, then query(); the rest follows in the order of the header.
#include "cli/top/top_state.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "cli/top/cell_text.h"
#include "cli/top/detail_head.h"
#include "cli/top/filter_words.h"
#include "cli/top/top_help.h"
#include "cli/view/job_table.h"
#include "cli/view/report.h"

namespace muster::cli::inline top {
namespace {

constexpr auto kJobOrders =
    std::to_array<v1::JobOrder>({v1::JOB_ORDER_STATE, v1::JOB_ORDER_UNSPECIFIED, v1::JOB_ORDER_NAME, v1::JOB_ORDER_SIZE,
                                 v1::JOB_ORDER_PRIORITY, v1::JOB_ORDER_TIME});
constexpr std::chrono::seconds kSilence{5};  // without an answer, until the screen says so
constexpr int kWheelRows = 3;

bool is_kept(const v1::Job& job, const std::string& filter) {
  std::vector<std::string> texts{job.id(), job.name(), state_name(job.state())};
  texts.insert(texts.end(), job.command().begin(), job.command().end());
  for (const v1::HostStatus& host : job.hosts()) texts.push_back(host.name());
  for (const v1::NameValue& label : job.labels()) texts.push_back(label.name() + "=" + label.value());
  return has_all_words(filter, texts);
}

}  // namespace

std::string_view name_of(v1::JobOrder order) {
  switch (order) {
    case v1::JOB_ORDER_STATE:
      return "state";
    case v1::JOB_ORDER_NAME:
      return "name";
    case v1::JOB_ORDER_SIZE:
      return "ranks";
    case v1::JOB_ORDER_PRIORITY:
      return "priority";
    case v1::JOB_ORDER_TIME:
      return "time";
    default:
      return "newest first";
  }
}

void TopState::resize(int lines, int columns) {
  lines_ = std::max(lines, 1);
  columns_ = std::max(columns, 1);
  settle();
}

void TopState::set_time(base::WallTime now) {
  now_ = now;
  settle();  // the line about a silent launcherd may have come
}

bool TopState::apply(const KeyPress& press) {
  if (has_help_) {
    apply_in_help(press.key);
    return true;
  }
  if (is_typing()) {
    apply_in_filter(press);
    return true;
  }
  switch (press.key) {
    case TopKey::kText:
      return apply_text(press.text);
    case TopKey::kEnter:
      open();
      return true;
    case TopKey::kEscape:
    case TopKey::kBackspace:
      go_back();
      return true;
    case TopKey::kTab:
      if (screen() != TopScreen::kMain) return true;
      pane_ = pane_ == TopPane::kJobs ? TopPane::kHosts : TopPane::kJobs;
      settle();
      return true;
    case TopKey::kClick:
    case TopKey::kWheelUp:
    case TopKey::kWheelDown:
      apply_mouse(press);
      return true;
    default:
      apply_move(press.key);
      return true;
  }
}

bool TopState::apply_text(const std::string& text) {
  const bool is_main = screen() == TopScreen::kMain;
  if (text == "q" || text == "Q") return false;
  if (text == "?" || text == "h") {
    has_help_ = true;
    help_top_ = 0;
  }
  if (text == "j") apply_move(TopKey::kDown);
  if (text == "k") apply_move(TopKey::kUp);
  if (text == "g") apply_move(TopKey::kHome);
  if (text == "G") apply_move(TopKey::kEnd);
  if (!is_main) return true;
  if (text == "s") next_order();
  if (text == "r") reverse_order();
  if (text == "/") start_filter();
  if (text == "a") {
    list_.all = !list_.all;
    jobs_ = {};
  }
  return true;
}

void TopState::apply_move(TopKey key) {
  MovedList list = moved_list();
  switch (key) {
    case TopKey::kUp:
      return list.move_by(-1);
    case TopKey::kDown:
      return list.move_by(1);
    case TopKey::kPageUp:
      return list.move_by(-std::max<std::int64_t>(list.shown, 1));
    case TopKey::kPageDown:
      return list.move_by(std::max<std::int64_t>(list.shown, 1));
    case TopKey::kHome:
      return list.move_to(0);
    case TopKey::kEnd:
      return list.move_to(list.size - 1);
    default:
      return;
  }
}

void TopState::apply_in_filter(const KeyPress& press) {
  switch (press.key) {
    case TopKey::kText:
      if (typed_->size() + press.text.size() <= kLongestFilter) *typed_ += press.text;
      return;
    case TopKey::kBackspace:
      *typed_ = without_last(*typed_);
      return;
    case TopKey::kClearLine:
      typed_->clear();
      return;
    case TopKey::kEscape:
      typed_.reset();
      return;
    case TopKey::kEnter:
      set_filter(*std::exchange(typed_, std::nullopt));
      return;
    default:
      return;
  }
}

void TopState::apply_in_help(TopKey key) {
  const int last = std::max(static_cast<int>(help_lines().size()) - lines_ + 1, 0);
  if (key == TopKey::kUp || key == TopKey::kWheelUp) {
    help_top_ = std::max(help_top_ - 1, 0);
  } else if (key == TopKey::kDown || key == TopKey::kWheelDown) {
    help_top_ = std::min(help_top_ + 1, last);
  } else {
    has_help_ = false;
  }
}

void TopState::apply_mouse(const KeyPress& press) {
  if (press.key == TopKey::kClick) return select_line(press.row);
  const bool is_over_hosts = screen() == TopScreen::kMain && areas().hosts.holds(press.row);
  const bool is_over_jobs = screen() == TopScreen::kMain && areas().jobs.holds(press.row);
  MovedList list = is_over_hosts  ? moved_list(TopPane::kHosts)
                   : is_over_jobs ? moved_list(TopPane::kJobs)
                                  : moved_list();
  list.move_by(press.key == TopKey::kWheelUp ? -kWheelRows : kWheelRows);
}

// Selects the row on this line of the screen. If it was selected before, opens it.
void TopState::select_line(int line) {
  TableArea area = detail().table;
  TopPane clicked = pane_;
  if (screen() == TopScreen::kMain) {
    const MainAreas both = areas();
    if (line == both.jobs.title || line == both.hosts.title) {
      pane_ = line == both.jobs.title ? TopPane::kJobs : TopPane::kHosts;
      return settle();
    }
    clicked = both.hosts.holds(line) ? TopPane::kHosts : TopPane::kJobs;
    area = clicked == TopPane::kHosts ? both.hosts : both.jobs;
  }
  if (!area.holds(line)) return;
  MovedList list = moved_list(clicked);
  const std::int64_t row = list.cursor->top + line - area.first;
  if (row >= list.size) return;
  const bool was_selected = clicked == pane_ && row == list.cursor->at;
  pane_ = clicked;
  list.move_to(row);
  if (was_selected) open();
}

void TopState::open() {
  if (screen() == TopScreen::kJob) return;
  if (screen() == TopScreen::kHost) {
    const auto row = static_cast<std::size_t>(host_job_cursor_.at);
    if (row < host_jobs_.size()) open_job(host_jobs_[row].id());
    return;
  }
  if (pane_ == TopPane::kJobs) {
    if (const v1::Job* job = job_at(jobs_.at)) open_job(job->id());
    return;
  }
  const auto row = static_cast<std::size_t>(host_cursor_.at);
  if (row >= host_rows_.size()) return;
  host_name_ = hosts_[host_rows_[row]].name();
  host_jobs_.clear();
  host_job_cursor_ = {};
  screens_.push_back(TopScreen::kHost);
}

void TopState::open_job(const std::string& id) {
  job_name_ = id;
  job_.reset();
  job_problem_.clear();
  ranks_ = {};
  screens_.push_back(TopScreen::kJob);
}

void TopState::go_back() {
  if (screens_.size() > 1) {
    screens_.pop_back();
    return settle();
  }
  const std::string& filter = pane_ == TopPane::kJobs ? list_.filter : host_filter_;
  if (!filter.empty()) set_filter({});
}

void TopState::next_order() {
  if (pane_ == TopPane::kHosts) {
    host_order_ = static_cast<HostOrder>((static_cast<int>(host_order_) + 1) % kHostOrders);
    order_hosts();
    return;
  }
  const auto now = std::ranges::find(kJobOrders, list_.order);
  const std::size_t next = now == kJobOrders.end() ? 0 : static_cast<std::size_t>(now - kJobOrders.begin()) + 1;
  list_.order = kJobOrders.at(next % kJobOrders.size());
  jobs_ = {};
}

void TopState::reverse_order() {
  if (pane_ == TopPane::kHosts) {
    are_hosts_reversed_ = !are_hosts_reversed_;
    order_hosts();
    return;
  }
  list_.is_reversed = !list_.is_reversed;
  jobs_ = {};
}

void TopState::start_filter() {
  typed_ = pane_ == TopPane::kJobs ? list_.filter : host_filter_;
}

void TopState::set_filter(const std::string& filter) {
  if (pane_ == TopPane::kHosts) {
    host_filter_ = filter;
    host_cursor_ = {};
    return order_hosts();
  }
  list_.filter = filter;
  jobs_ = {};
}

void TopState::take(TopAnswer answer) {
  has_answer_ = true;
  problem_ = answer.problem;
  answered_at_ = answer.at;
  now_ = std::max(now_, answer.at);
  take_jobs(answer);
  if (problem_.empty()) take_hosts(std::move(answer.hosts));
  if (answer.query.job == job_name_ && (answer.job || !answer.job_problem.empty())) {
    if (answer.job) {
      job_ = std::move(answer.job);
      first_rank_ = answer.query.first_rank;
    }
    job_problem_ = answer.job_problem;
  }
  if (answer.query.host == host_name_ && problem_.empty()) host_jobs_ = std::move(answer.host_jobs);
  settle();
}

// Takes the list if it is still the wanted one. The selected job stays selected where it has moved to.
void TopState::take_jobs(TopAnswer& answer) {
  if (answer.query.list != list_) return;
  const v1::Job* const selected = job_at(jobs_.at);
  const std::string id = selected == nullptr || jobs_.at == 0 ? std::string() : selected->id();
  foreground_ = std::move(answer.foreground);
  std::erase_if(foreground_, [this](const v1::Job& job) { return !is_kept(job, list_.filter); });
  if (answer.problem.empty()) {
    rows_ = std::move(answer.rows);
    running_ = answer.running;
    waiting_ = answer.waiting;
  }
  if (id.empty()) return;
  const auto has_row = [this](std::int64_t row, const std::string& name) {
    const v1::Job* const job = job_at(row);
    return job != nullptr && job->id() == name;
  };
  if (has_row(jobs_.at, id)) return;
  const auto is_it = [&id](const v1::Job& job) { return job.id() == id; };
  const auto known = std::ranges::find_if(rows_.jobs, is_it);
  if (known == rows_.jobs.end()) return;
  const std::int64_t row = static_cast<std::int64_t>(foreground_.size()) + rows_.first + (known - rows_.jobs.begin());
  jobs_.top += row - jobs_.at;
  jobs_.at = row;
}

void TopState::take_hosts(std::vector<v1::LauncherHost> hosts) {
  const auto row = static_cast<std::size_t>(host_cursor_.at);
  const std::string selected = host_cursor_.at > 0 && row < host_rows_.size() ? hosts_[host_rows_[row]].name() : "";
  hosts_ = std::move(hosts);
  order_hosts();
  if (selected.empty()) return;
  const auto is_it = [&](std::size_t i) { return hosts_[i].name() == selected; };
  const auto found = std::ranges::find_if(host_rows_, is_it);
  if (found != host_rows_.end()) host_cursor_.at = found - host_rows_.begin();
}

void TopState::order_hosts() {
  host_rows_ = ordered_hosts(hosts_, host_filter_, host_order_, are_hosts_reversed_);
  settle();
}

// Brings every cursor back into its list and onto the screen.
void TopState::settle() {
  const MainAreas both = areas();
  jobs_.move_to(jobs_.at, job_count(), both.jobs.rows);
  host_cursor_.move_to(host_cursor_.at, static_cast<std::int64_t>(host_rows_.size()), both.hosts.rows);
  const DetailAreas one = detail();
  if (screen() == TopScreen::kJob) ranks_.move_to(ranks_.at, rank_count(), one.table.rows);
  if (screen() == TopScreen::kHost) {
    host_job_cursor_.move_to(host_job_cursor_.at, static_cast<std::int64_t>(host_jobs_.size()), one.table.rows);
  }
}

TopQuery TopState::query() const {
  const MainAreas both = areas();
  TopQuery query{.list = list_};
  query.first = std::max<std::int64_t>(jobs_.top - static_cast<std::int64_t>(foreground_.size()) - kMargin, 0);
  query.count = both.jobs.rows + 2 * kMargin;
  if (screen() == TopScreen::kJob) {
    query.job = job_name_;
    query.first_rank = static_cast<int>(std::max<std::int64_t>(ranks_.top - kMargin, 0));
    query.rank_count = lines_ + 2 * static_cast<int>(kMargin);
  }
  if (screen() == TopScreen::kHost) query.host = host_name_;
  return query;
}

std::string TopState::problem() const {
  if (!problem_.empty()) return problem_ + "; asking again";
  const auto silent = std::chrono::duration_cast<base::Duration>(now_ - answered_at_);
  if (!has_answer_ || silent < kSilence) return {};
  return fmt::format("no answer for {}; still asking", format_duration(silent));
}

std::int64_t TopState::job_count() const {
  return static_cast<std::int64_t>(foreground_.size()) + rows_.total;
}

const v1::Job* TopState::job_at(std::int64_t row) const {
  const auto foreground = static_cast<std::int64_t>(foreground_.size());
  if (row >= 0 && row < foreground) return &foreground_[static_cast<std::size_t>(row)];
  const std::int64_t index = row - foreground - rows_.first;
  if (index < 0 || index >= static_cast<std::int64_t>(rows_.jobs.size())) return nullptr;
  return &rows_.jobs[static_cast<std::size_t>(index)];
}

MainAreas TopState::areas() const {
  return main_areas(lines_, lines_above(), job_count(), static_cast<std::int64_t>(host_rows_.size()), pane_);
}

std::int64_t TopState::rank_count() const {
  if (!job_ || (job_->ranks().empty() && first_rank_ == 0)) return 0;
  return std::max<std::int64_t>(job_->size(), first_rank_ + job_->ranks_size());
}

const v1::RankStatus* TopState::rank_at(std::int64_t row) const {
  if (!job_ || row < first_rank_ || row - first_rank_ >= job_->ranks_size()) return nullptr;
  return &job_->ranks(static_cast<int>(row - first_rank_));
}

const v1::LauncherHost* TopState::host() const {
  const auto found = std::ranges::find(hosts_, host_name_, &v1::LauncherHost::name);
  return found == hosts_.end() ? nullptr : &*found;
}

DetailAreas TopState::detail() const {
  if (screen() == TopScreen::kMain) return {};
  const std::size_t head = screen() == TopScreen::kJob
                               ? job_head(job_ ? &*job_ : nullptr, job_name_, job_problem_, now_).size()
                               : host_head(host(), host_name_).size();
  return detail_areas(lines_, lines_above(), static_cast<std::int64_t>(head));
}

TopState::MovedList TopState::moved_list(TopPane pane) {
  if (screen() == TopScreen::kJob) return {&ranks_, rank_count(), detail().table.rows};
  if (screen() == TopScreen::kHost) {
    return {&host_job_cursor_, static_cast<std::int64_t>(host_jobs_.size()), detail().table.rows};
  }
  const MainAreas both = areas();
  if (pane == TopPane::kJobs) return {&jobs_, job_count(), both.jobs.rows};
  return {&host_cursor_, static_cast<std::int64_t>(host_rows_.size()), both.hosts.rows};
}

}  // namespace muster::cli::top
