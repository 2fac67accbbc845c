// Lines of a log without escapes, prefixes and output of NCCL.
#include "reports/nccl_tests_text.hpp"

#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

namespace p5::reports::nccl_tests {

namespace {

// ---- colours, line ends

std::string without_escapes(std::string_view line) {
  std::string text;
  for (std::size_t at = 0; at < line.size();) {
    const std::string_view rest = line.substr(at);
    if (const std::size_t length = length_of_escape(rest); length > 0) {
      at += length;
    } else if (rest.starts_with(byte_order_mark)) {
      at += byte_order_mark.size();
    } else if (rest.starts_with(no_break_space)) {
      text += ' ';
      at += no_break_space.size();
    } else {
      text += line[at++];
    }
  }
  return text;
}

// Text of a line. Of a very long one only the beginning and the end, where rows may be.
std::string text_of_line(std::string_view line, std::size_t& left_out) {
  constexpr std::size_t kept = 100'000;  // to each side
  if (line.size() <= 2 * kept) return without_escapes(line);
  left_out = line.size() - 2 * kept;
  return without_escapes(line.substr(0, kept)) + " ... " + without_escapes(line.substr(line.size() - kept));
}

// Lines of the file. A carriage return within a line starts it anew; without line feeds it ends lines.
std::vector<Line> physical_lines(std::string_view text) {
  std::vector<Line> lines;
  const char end = text.find('\n') == std::string_view::npos ? '\r' : '\n';
  int number = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find(end, from), text.size());
    std::string_view line = text.substr(from, to - from);
    while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    ++number;
    for (std::size_t part = 0; part <= line.size();) {
      const std::size_t stop = std::min(line.find('\r', part), line.size());
      Line& fresh = lines.emplace_back(Line{.text = "", .first = number, .last = number, .ended = to < text.size()});
      fresh.text = text_of_line(line.substr(part, stop - part), fresh.left_out);
      part = stop + 1;
    }
    from = to + 1;
  }
  return lines;
}

// Unwraps lines of log collectors that write JSON objects (Docker, journald, CloudWatch): the member with the head of
// the table is the line. Other lines are unchanged.
void unwrap_json(std::vector<Line>& lines) {
  using nlohmann::json;
  const auto parsed = [](const Line& line) { return json::parse(line.text, nullptr, false); };
  const auto is_object = [](const Line& line) {
    const std::size_t first = line.text.find_first_not_of(' ');
    return first != std::string::npos && line.text[first] == '{' && line.text.back() == '}';
  };
  const auto head = std::ranges::find_if(
      lines, [&](const Line& line) { return is_object(line) && line.text.find("busbw") != std::string::npos; });
  if (head == lines.end()) return;
  const json first = parsed(*head);
  if (!first.is_object()) return;
  std::string member;
  for (const auto& [key, value] : first.items())
    if (value.is_string() && value.get_ref<const std::string&>().find("busbw") != std::string::npos) member = key;
  if (member.empty()) return;
  for (Line& line : lines) {
    if (!is_object(line)) continue;
    const json object = parsed(line);
    if (!object.is_object()) continue;
    const auto found = object.find(member);
    if (found == object.end() || !found->is_string()) continue;
    line.text = without_escapes(found->get_ref<const std::string&>());
    while (!line.text.empty() && (line.text.back() == '\n' || line.text.back() == '\r')) line.text.pop_back();
  }
}

// ---- comments

// True if a comment of nccl-tests begins so, behind its "#".
bool begins_comment(std::string_view text) {
  constexpr std::array<std::string_view, 20> beginnings{
      "nThread ",     "Using devices",    "Rank ",         "size ",         "(B) ",
      "out-of-place", "in-place",         "Out of bounds", "Avg bus",       "Collective test",
      "nccl-tests ",  "nccl-tests",       "Blocking ",     "Parallel Init", "Per-Iteration",
      "Testing ",     "GPU memory usage", "Reducing ",     "error: ",       "Errors with"};
  return std::ranges::any_of(beginnings, [&](std::string_view each) { return text.starts_with(each); });
}

bool has_comment(const Line& line) { return find_comment(line.text) != std::string::npos; }

// Pages that take "#" for a heading leave it out. Comments get theirs back if none has one and there is a head.
void restore_comments(std::vector<Line>& lines) {
  const auto is_head = [](const Line& line) {
    const Words words = words_of(line.text);
    return words.size() > 3 && words[0] == "size" && words[1] == "count" && words[2] == "type";
  };
  if (std::ranges::none_of(lines, is_head) || std::ranges::any_of(lines, has_comment)) return;
  for (Line& line : lines)
    if (begins_comment(trimmed(line.text))) line.text.insert(0, "#");
}

// ---- prefixes and suffixes

// Length of a tab and a number or time at the end of a line: the AWS CLI and the query tools of log collectors print
// the time of an event behind it, too, in their own forms.
std::size_t length_of_suffix(std::string_view line) {
  const std::size_t tab = line.rfind('\t');
  if (tab == std::string_view::npos) return 0;
  const std::string_view time = line.substr(tab + 1);
  const auto is_of_time = [](char c) {
    return is_digit(c) || (c >= 'A' && c <= 'Z') || std::string_view("-+:.,/ ").find(c) != std::string_view::npos;
  };
  return !time.empty() && is_digit(time.front()) && std::ranges::all_of(time, is_of_time) ? line.size() - tab : 0;
}

char kind_of(char c) { return is_word(c) ? 'a' : is_space(c) ? ' ' : c; }

// Pattern of a prefix, in which words and blanks are collapsed: "2026-03-01T12:00:00Z " and "2027-11-29T23:59:59Z " are
// both "a-a-a:a:a ".
std::string shape_of(std::string_view prefix) {
  std::string shape;
  for (const char c : prefix) {
    const char kind = kind_of(c);
    if (shape.empty() || shape.back() != kind || (kind != 'a' && kind != ' ')) shape += kind;
  }
  return shape;
}

// Shape of what a log collector writes behind each line, such as a quotation mark, a bar and a time, by the line
// "# Using devices", behind which nccl-tests prints nothing; "" for none.
std::string shape_of_suffix(const std::vector<Line>& lines) {
  for (const Line& line : lines) {
    const std::size_t at = find_comment(line.text);
    if (at == std::string::npos) continue;
    Scan scan(std::string_view(line.text).substr(at + 1));
    scan.skip_space();
    if (!scan.take("Using devices")) continue;
    const std::string shape = shape_of(scan.rest());
    const bool is_marked = std::ranges::any_of(shape, [](char kind) { return kind != 'a' && kind != ' '; });
    return is_marked && shape.front() != 'a' ? shape : "";
  }
  return "";
}

// Length of the end of a line that has this shape; 0 for none.
std::size_t length_of_shape(std::string_view line, const std::string& shape) {
  constexpr std::size_t longest = 200;
  for (std::size_t length = 1; length <= std::min(longest, line.size()); ++length) {
    const std::size_t at = line.size() - length;
    const bool begins =
        kind_of(line[at]) == shape.front() && (shape.front() != ' ' || at == 0 || !is_space(line[at - 1]));
    if (begins && shape_of(line.substr(at)) == shape) return length;
  }
  return 0;
}

// Removes suffixes where most comments have one. `length`: that of a line's suffix; 0 for none.
void drop_suffixes(std::vector<Line>& lines, const auto& length) {
  const auto comments = std::ranges::count_if(lines, has_comment);
  const auto with_suffix =
      std::ranges::count_if(lines, [&](const Line& each) { return has_comment(each) && length(each.text) > 0; });
  if (2 * with_suffix <= comments) return;
  for (Line& line : lines) line.text.resize(line.text.size() - length(line.text));
}

class Prefixes {
 public:
  explicit Prefixes(const std::vector<Line>& lines) {
    constexpr std::size_t longest = 300;
    std::map<std::string, std::pair<int, std::size_t>> seen;  // count; trailing blanks
    int comments = 0, bare = 0;
    for (const Line& line : lines) {
      const std::size_t at = find_comment(line.text);
      if (at == std::string::npos || at > longest) continue;
      ++comments;
      const std::string_view prefix = std::string_view(line.text).substr(0, at);
      const std::string shape = shape_of(prefix);
      if (shape.empty() || shape.back() == 'a') {  // its end is ambiguous
        ++bare;
        continue;
      }
      const auto blanks = static_cast<std::size_t>(std::ranges::find_if_not(prefix.rbegin(), prefix.rend(), is_space) -
                                                   prefix.rbegin());
      const auto [known, fresh] = seen.try_emplace(shape, 0, blanks);
      ++known->second.first;
      known->second.second = std::min(known->second.second, blanks);
    }
    if (2 * bare >= comments) return;
    for (const auto& [shape, counted] : seen)
      if (counted.first > 1 || seen.size() == 1) shapes_.push_back({shape, counted.second});
    std::ranges::sort(shapes_, std::ranges::greater{}, [](const Shape& each) { return each.text.size(); });
  }

  // Length of the prefix of a line; 0 for none.
  std::size_t length(std::string_view line) const {
    for (const Shape& shape : shapes_)
      if (const std::optional<std::string_view> rest = shape.without(line)) return line.size() - rest->size();
    return 0;
  }

 private:
  struct Shape {
    std::string text;
    std::size_t blanks = 0;

    std::optional<std::string_view> without(std::string_view line) const {
      Scan scan(line);
      for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == ' ' && i + 1 == text.size()) {
          for (std::size_t blank = 0; blank < blanks && !scan.at_end() && is_space(scan.rest().front()); ++blank)
            scan.take(scan.rest().substr(0, 1));
        } else if (text[i] == ' '   ? !scan.skip_space()
                   : text[i] == 'a' ? scan.take_while(is_word).empty()
                                    : !scan.take(std::string_view(text).substr(i, 1))) {
          return std::nullopt;
        }
      }
      return scan.rest();
    }
  };
  std::vector<Shape> shapes_;  // the longest first
};

// True for a prefix that is told from other text.
bool is_distinct(std::string_view prefix) {
  constexpr std::size_t shortest = 3;
  return prefix.size() >= shortest && std::ranges::any_of(prefix, [](char c) { return !is_word(c) && !is_space(c); });
}

// Hydra puts its prefix before each write of a process, also within lines.
std::string without_repeated(std::string_view text, std::string_view prefix) {
  std::string rest(text);
  if (!is_distinct(prefix)) return rest;
  for (std::size_t at = 0; (at = rest.find(prefix, at)) != std::string::npos;) {
    // Keeps the device in "host:1234:1240 [0] NCCL INFO".
    std::size_t before = at;
    while (before > 0 && (is_digit(rest[before - 1]) || is_space(rest[before - 1]))) --before;
    if (before < at && before > 0 && rest[before - 1] == ':')
      at += prefix.size();
    else
      rest.erase(at, prefix.size());
  }
  return rest;
}

// Such a prefix of a row whose file has no comment that shows it; "" for none.
std::string_view repeated_prefix(std::string_view row) {
  const std::string_view prefix = row.substr(0, row.find(' ')), rest = row.substr(prefix.size());
  if (!is_distinct(prefix) || rest.find(prefix) == std::string_view::npos) return "";
  const std::string without = without_repeated(rest, prefix);
  return beginning_of_row(without) > 0 && is_blank(without.substr(beginning_of_row(without))) ? prefix : "";
}

// ---- lines that are in the file twice

// Leaves out the second of two equal lines where each comment is followed by its copy, as two handlers of one output
// write them. The last one may be cut off.
void drop_copies(std::vector<Line>& lines, std::vector<std::string>& labels) {
  std::vector<std::size_t> kept;
  std::size_t copied = 0, alone = 0;
  bool last_is_alone = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    kept.push_back(i);
    const bool is_cut = i + 2 == lines.size() && lines[i].text.starts_with(lines[i + 1].text);
    const bool is_twice =
        i + 1 < lines.size() && labels[i] == labels[i + 1] && (lines[i].text == lines[i + 1].text || is_cut);
    if (has_comment(lines[i])) {
      ++(is_twice ? copied : alone);
      last_is_alone = !is_twice;
    }
    i += is_twice;
  }
  if (copied == 0 || alone > (last_is_alone ? 1 : 0)) return;
  std::vector<Line> lines_once;
  std::vector<std::string> labels_once;
  for (const std::size_t i : kept) {
    lines_once.push_back(std::move(lines[i]));
    labels_once.push_back(std::move(labels[i]));
  }
  lines = std::move(lines_once);
  labels = std::move(labels_once);
}

// ---- programs side by side

// True for "2026-03-01T12:00:00Z", "12:00:00.123]" and the like.
bool is_date_or_time(std::string_view word) {
  const auto stands = [&](std::string_view form) {
    for (std::size_t at = 0; at + form.size() <= word.size(); ++at)
      if (is_of_form(word.substr(at, form.size()), form)) return true;
    return false;
  };
  return stands("00:00:00") || stands("0000-00-00");
}

// A prefix without dates and times: what a launcher puts before all lines of one process, as "0:" of `srun -l`.
std::string process_label(std::string_view prefix) {
  std::string label;
  for (const std::string_view word : words_of(prefix))
    if (!is_date_or_time(word)) label.append(word).append(" ");
  return label;
}

// True if the line lists a rank other than 0. Programs of rank 0 alone are one that was built without MPI=1.
bool lists_another_rank(std::string_view text) {
  const std::size_t at = find_comment(text);
  if (at == std::string_view::npos) return false;
  Scan scan(text.substr(at + 1));
  scan.skip_space();
  return scan.take("Rank") && scan.skip_space() && as_number<int>(scan.digits()).value_or(0) > 0;
}

// Host, number and bus of the GPU in a line of a list of devices, as it is written there; "" in other lines.
std::string listed_gpu(const std::string& text) {
  const std::size_t on = text.find(" on ", text.find(" Pid ")), bus = text.find(']', on);
  return on == std::string::npos || bus == std::string::npos ? "" : text.substr(on, bus - on);
}

// The labels whose programs ran side by side, in the order of their first lines: lines of one follow its program's
// after another's has begun. Empty if all programs ran one after the other, or shared GPUs: these were meant to be one.
std::vector<std::string> labels_side_by_side(const std::vector<Line>& lines, const std::vector<std::string>& labels) {
  std::vector<std::string> with_program;
  std::set<std::string> open, behind;  // without the end of their program; and another program has begun since
  std::map<std::string, std::string> label_of_gpu;
  bool are_side_by_side = false, are_of_ranks = false, share_gpus = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string &text = lines[i].text, &label = labels[i];
    if (label.empty()) continue;
    if (const std::string gpu = listed_gpu(text); !gpu.empty())
      share_gpus = share_gpus || label_of_gpu.try_emplace(gpu, label).first->second != label;
    are_side_by_side = are_side_by_side || (behind.contains(label) && !is_blank(text));
    are_of_ranks = are_of_ranks || lists_another_rank(text);
    if (find_comment(text) == std::string::npos) continue;
    if (text.find("# nThread") != std::string::npos) {
      for (const std::string& other : open)
        if (other != label) behind.insert(other);
      open.insert(label);
      if (std::ranges::find(with_program, label) == with_program.end()) with_program.push_back(label);
    }
    if (text.find("# Avg bus") == std::string::npos) continue;
    open.erase(label);
    behind.erase(label);
  }
  return are_side_by_side && are_of_ranks && !share_gpus ? with_program : std::vector<std::string>();
}

// Puts the lines of programs that ran side by side one after the other; other lines before and behind them.
void part_programs(std::vector<Line>& lines, const std::vector<std::string>& labels) {
  const std::vector<std::string> side_by_side = labels_side_by_side(lines, labels);
  if (side_by_side.empty()) return;
  std::map<std::string, std::size_t> places;  // from 1; 0: before the first of them
  for (const std::string& label : side_by_side) places.emplace(label, places.size() + 1);
  std::vector<std::vector<Line>> parts(places.size() + 2);
  bool begun = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto found = places.find(labels[i]);
    begun = begun || found != places.end();
    const std::size_t part = found != places.end() ? found->second : begun ? parts.size() - 1 : 0;
    parts[part].push_back(std::move(lines[i]));
  }
  lines.clear();
  for (std::vector<Line>& part : parts) std::ranges::move(part, std::back_inserter(lines));
}

// ---- the text of NCCL

bool is_of_host(char c) { return is_word(c) || c == '.' || c == '-'; }

// Host name that ends at `end`.
std::string_view token_before(std::string_view text, std::size_t end) {
  std::size_t begin = end;
  while (begin > 0 && is_of_host(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

// Offset of ":1234:1240 [0] " in "host:1234:1240 [0] NCCL INFO".
std::size_t find_process(std::string_view text, std::size_t from = 0) {
  for (std::size_t at = from; (at = text.find(':', at)) != std::string_view::npos; ++at) {
    Scan scan(text.substr(at));
    scan.take(":");
    if (scan.digits().empty() || !scan.take(":") || scan.digits().empty() || !scan.take(" [")) continue;
    scan.take("-");
    if (!scan.digits().empty() && scan.take("]")) return at;
  }
  return std::string_view::npos;
}

// Offset of ": Test NCCL failure" in "host: Test NCCL failure common.cu:401 '...'".
std::size_t find_failure(std::string_view text) {
  constexpr std::array<std::string_view, 3> failures{": Test NCCL failure ", ": Test CUDA failure ",
                                                     ": Test timeout ("};
  std::size_t first = std::string_view::npos;
  for (const std::string_view each : failures) first = std::min(first, text.find(each));
  return first;
}

struct Hosts {
  std::set<std::string, std::less<>> listed;        // from lists of devices
  std::map<std::string, int, std::less<>> of_nccl;  // before the process in lines of NCCL, perhaps with a prefix
};

Hosts hosts_in(const std::vector<Line>& lines) {
  Hosts hosts;
  for (const Line& line : lines) {
    const std::string_view text = line.text;
    constexpr std::string_view on = " on ", device = " device ";
    const std::size_t from = text.find(on, text.find(" Pid ")), to = text.find(device, from);
    if (from != std::string_view::npos && to != std::string_view::npos) {
      std::string_view host = text.substr(from + on.size(), to - from - on.size());
      while (!host.empty() && is_space(host.front())) host.remove_prefix(1);
      if (!host.empty() && std::ranges::all_of(host, is_of_host)) hosts.listed.emplace(host);
    }
    const std::size_t process = find_process(text);
    if (process == std::string_view::npos) continue;
    if (const std::string_view host = token_before(text, process); !host.empty()) ++hosts.of_nccl[std::string(host)];
  }
  return hosts;
}

// Range of NCCL's output in a line, and the text before it that may belong to either.
struct ForeignSpan {
  std::size_t begin = 0, end = 0;
  std::string ambiguous;
};

class ForeignText {
 public:
  explicit ForeignText(const std::vector<Line>& lines) : hosts_(hosts_in(lines)) {}

  std::optional<ForeignSpan> in(std::string_view text) const {
    constexpr std::size_t none = std::string_view::npos;
    constexpr std::array<std::string_view, 2> versions{"NCCL version ", "RCCL version "};
    std::size_t behind_host = std::min(find_process(text), find_failure(text));
    ForeignSpan found{.begin = behind_host, .end = text.size(), .ambiguous = ""};
    if (behind_host != none) {
      const std::string_view token = token_before(text, behind_host);
      const std::size_t begin = behind_host - token.size();
      found.begin = begin_of_host(token, begin, found.ambiguous);
      found.begin = with_time_before(text, found.begin);
    }
    for (const std::string_view each : versions)
      if (const std::size_t at = text.find(each); at < found.begin)
        found = {.begin = at, .end = text.size(), .ambiguous = ""};
    // " .. host pid 5101: Test failure common.cu:519"
    if (const std::size_t at = text.find(": Test failure "); at != none)
      if (const std::size_t dots = text.rfind(" .. ", at); dots < found.begin)
        found = {.begin = dots, .end = text.size(), .ambiguous = ""};
    if (found.begin == none) return std::nullopt;
    // Another line of NCCL may begin within this one.
    constexpr std::size_t width_of_process = 4;
    std::size_t next = text.size();
    if (behind_host != none && found.begin <= behind_host)
      if (const std::size_t other = find_process(text, behind_host + width_of_process); other != none)
        next = with_time_before(text, other - token_before(text, other).size());
    const std::size_t figures = begin_of_figures(text.substr(0, next), found.begin);
    found.end = std::min({find_comment(text, found.begin), figures < next ? figures : text.size(), text.size()});
    return found;
  }

 private:
  // The token before the process may begin with figures of the table.
  std::size_t begin_of_host(std::string_view token, std::size_t begin, std::string& ambiguous) const {
    for (std::size_t skip = 0; skip < token.size(); ++skip)
      if (hosts_.listed.contains(token.substr(skip))) return begin + skip;
    // Prefers the most frequent suffix, and the shortest among those that occur once.
    std::size_t best = 0;
    int most = 0;
    for (std::size_t skip = 0; skip < token.size(); ++skip) {
      const auto found = hosts_.of_nccl.find(token.substr(skip));
      if (found == hosts_.of_nccl.end() || found->second < most || (found->second == most && most > 1)) continue;
      most = found->second;
      best = skip;
    }
    if (most > 1 || best > 0) return begin + best;
    constexpr std::size_t longest = 24;
    ambiguous = token.substr(0, longest);
    return begin;
  }

  // "[2026-03-01 12:00:00] host:1:2 [0] NCCL INFO"
  static std::size_t with_time_before(std::string_view text, std::size_t begin) {
    if (begin < 2 || text.substr(begin - 2, 2) != "] ") return begin;
    const std::size_t open = text.rfind('[', begin);
    if (open == std::string_view::npos) return begin;
    Scan scan(text.substr(open + 1, begin - open));
    return !scan.digits().empty() && scan.take("-") && !scan.digits().empty() && scan.take("-") ? open : begin;
  }

  // Figures may follow in the same line if NCCL's output was interrupted: at least four at the end of the line, one
  // with a decimal point.
  static std::size_t begin_of_figures(std::string_view text, std::size_t from) {
    constexpr std::size_t enough = 4;
    const Words words = words_of(text.substr(from));
    std::size_t run = 0;
    bool point = false;
    const auto is_figure = [](std::string_view word) {
      return word == "N/A" || word == "none" || as_number<double>(word) ||
             std::ranges::all_of(word, [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_'; }) ||
             std::ranges::all_of(word, [](char c) { return is_digit(c) || c == '-' || c == ':'; });
    };
    while (run < words.size() && is_figure(words[words.size() - 1 - run])) {
      const std::string_view word = words[words.size() - 1 - run];
      point = point || (word.find('.') != std::string_view::npos && as_number<double>(word));
      ++run;
    }
    // Words before the first number belong to NCCL.
    while (run > 0 && !as_number<double>(words[words.size() - run])) --run;
    if (!point || run < enough) return text.size();
    return static_cast<std::size_t>(words[words.size() - run].data() - text.data());
  }

  Hosts hosts_;
};

// Labels that appear before NCCL's lines only: frequent, and with a label's last character.
std::set<std::string, std::less<>> labels_in(const std::vector<Line>& lines, const ForeignText& foreign) {
  constexpr std::string_view ends = ":|>])}";
  constexpr int often = 3;
  std::map<std::string, int, std::less<>> seen;
  for (const Line& line : lines) {
    const std::optional<ForeignSpan> found = foreign.in(line.text);
    if (!found) continue;
    const std::string_view text = trimmed(std::string_view(line.text).substr(0, found->begin));
    if (!text.empty() && !is_digit(text.front()) && text.find('#') == std::string_view::npos &&
        ends.find(text.back()) != std::string_view::npos)
      ++seen[std::string(text)];
  }
  std::set<std::string, std::less<>> labels;
  for (const auto& [text, count] : seen)
    if (count >= often) labels.insert(text);
  return labels;
}

}  // namespace

std::size_t find_comment(std::string_view text, std::size_t from) {
  for (std::size_t at = from; (at = text.find('#', at)) != std::string_view::npos; ++at) {
    Scan scan(text.substr(at + 1));
    scan.skip_space();
    if (begins_comment(scan.rest())) return at;
  }
  return std::string_view::npos;
}

bool are_lines_of_json(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  if (line.size() == text.size()) return false;
  const nlohmann::json first = nlohmann::json::parse(line, nullptr, false);
  return first.is_object() && !first.contains("config");
}

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> physical = physical_lines(text);
  unwrap_json(physical);
  restore_comments(physical);
  drop_suffixes(physical, length_of_suffix);
  if (const std::string shape = shape_of_suffix(physical); !shape.empty())
    drop_suffixes(physical, [&](const std::string& line) { return length_of_shape(line, shape); });
  const Prefixes prefixes(physical);
  const bool has_comments = std::ranges::any_of(physical, has_comment);
  std::vector<std::string> labels_of_lines;
  for (Line& line : physical) {
    const std::string_view whole = line.text;
    const std::string_view prefix = has_comments ? whole.substr(0, prefixes.length(whole)) : repeated_prefix(whole);
    labels_of_lines.push_back(process_label(prefix));
    line.text = without_repeated(whole.substr(prefix.size()), prefix);
  }
  drop_copies(physical, labels_of_lines);
  part_programs(physical, labels_of_lines);
  const ForeignText foreign(physical);
  const std::set<std::string, std::less<>> labels = labels_in(physical, foreign);
  std::vector<Line> lines;
  std::optional<Line> open;  // continues after output of NCCL
  const auto append = [&](const Line& line, std::string_view piece) {
    if (!open) open = Line{.text = "", .first = line.first, .last = line.last, .gaps = {}};
    open->text += piece;
    open->last = line.last;
  };
  const auto close = [&](bool ended) {
    open->ended = ended;
    lines.push_back(std::move(*open));
    open.reset();
  };
  for (Line& line : physical) {
    std::string_view rest = line.text;
    std::optional<ForeignSpan> found = foreign.in(rest);
    if (!found && !open) {
      lines.push_back(std::move(line));
      continue;
    }
    if (line.left_out > 0)
      lines.push_back(
          {.text = "", .first = line.first, .last = line.last, .foreign = true, .left_out = line.left_out, .gaps = {}});
    bool ends_here = true;
    for (; found; found = foreign.in(rest)) {
      std::string_view before = rest.substr(0, found->begin);
      if (labels.contains(trimmed(before))) before = "";
      if (const bool is_warning = rest.find(" NCCL WARN ") < found->end; is_warning && before.empty() && ends_here)
        for (auto last = lines.rbegin(); last != lines.rend() && last->last + 1 == line.first && !last->is_cut; ++last)
          last->is_cut = !last->foreign;
      lines.push_back({.text = std::string(rest.substr(found->begin, found->end - found->begin)),
                       .first = line.first,
                       .last = line.last,
                       .foreign = true,
                       .gaps = {}});
      const bool all = found->end == rest.size();
      if (!before.empty() || !found->ambiguous.empty() || !all || open) {
        append(line, before);
        if (!found->ambiguous.empty() || !before.empty()) open->gaps.push_back({open->text.size(), found->ambiguous});
      }
      rest = rest.substr(found->end);
      ends_here = !all;
    }
    if (!ends_here) continue;
    append(line, rest);
    close(line.ended);
  }
  if (open) close(false);
  return lines;
}

}  // namespace p5::reports::nccl_tests
