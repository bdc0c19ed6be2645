#include "sim_engine/trace/trace_recorder.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "test/sim_engine/components/exchange_program.h"

namespace kernbench::sim::trace_recorder_test {

namespace {

using nlohmann::json;

std::vector<json> events_of(const json& trace, const std::string& phase) {
  std::vector<json> events;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) events.push_back(event);
  }
  return events;
}

// Picoseconds of a time that was written as microseconds.
std::int64_t ps(const json& microseconds) {
  return std::llround(microseconds.get<double>() * 1e6);
}

// Spans of one track come one after the other; returns how many there are.
std::size_t check_no_overlap(const json& trace) {
  std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> by_track;
  for (const json& span : events_of(trace, "X")) {
    by_track[span.at("tid")].emplace_back(ps(span.at("ts")),
                                          ps(span.at("ts")) + ps(span.at("dur")));
  }
  std::size_t count = 0;
  for (auto& [track, spans] : by_track) {
    std::ranges::sort(spans);
    for (std::size_t i = 1; i < spans.size(); ++i) {
      INFO("track " << track);
      CHECK(spans[i].first >= spans[i - 1].second);
    }
    count += spans.size();
  }
  return count;
}

}  // namespace

TEST_CASE("an empty trace is JSON too", "[trace]") {
  CHECK(json::parse(TraceRecorder().to_json()).at("traceEvents").empty());
}

TEST_CASE("a recorder keeps the first spans of the units that are asked for", "[trace]") {
  TraceRecorder trace;
  const auto label = trace.label("work");
  const auto early = trace.track(0, "cube0.pe0.cpu");
  trace.span(early, label, Time{0}, Time{1});
  trace.keep_only("cube0.pe0.", 2);
  for (const char* const unit : {"cube0.pe0.cpu", "cube0.pe1.cpu", "cube0.pe0.gemm"}) {
    trace.span(trace.track(0, unit), label, Time{2}, Time{3});
  }
  trace.span(early, label, Time{4}, Time{5});
  CHECK(trace.span_count() == 2);
  const json written = json::parse(trace.to_json());
  CHECK(events_of(written, "X").size() == 2);
  CHECK(events_of(written, "M").size() == 1 + 2);  // the SIP and its two units
}

TEST_CASE("a trace that is cut has what was until then, and what took no time then", "[trace]") {
  TraceRecorder trace;
  const auto track = trace.track(0, "cube0.pe0.cpu");
  const auto add = [&](const char* name, int start, int end) {
    trace.span(track, trace.label(name), Time{start}, Time{end});
  };
  add("before", 0, 20);
  add("at once", 10, 10);
  add("then", 10, 20);
  add("later", 15, 20);
  trace.cut(Time{10});
  const auto spans = events_of(json::parse(trace.to_json()), "X");
  REQUIRE(spans.size() == 2);
  CHECK((spans[0].at("name") == "before" && ps(spans[0].at("dur")) == 10));
  CHECK((spans[1].at("name") == "at once" && ps(spans[1].at("dur")) == 0));
}

TEST_CASE("a span is written with its SIP, its unit and exact microseconds", "[trace]") {
  TraceRecorder trace;
  const auto track = trace.track(1, "cube0.pe0.cpu");
  trace.span(track, trace.label("kernel"), Time{1'234'567'890'123}, Time{1'234'567'890'124});
  const std::string text = trace.to_json();
  CHECK(text ==
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
        R"({"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"sip1"}},)"
        "\n"
        R"({"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"cube0.pe0.cpu"}},)"
        "\n"
        R"({"ph":"X","name":"kernel","pid":1,"tid":1,"ts":1234567.890123,"dur":0.000001})"
        "\n]}\n");
  CHECK_NOTHROW(json::parse(text));
}

TEST_CASE("a trace may begin later: what started before is left out", "[trace]") {
  TraceRecorder trace;
  const auto track = trace.track(0, "unit");
  for (const std::int64_t start : {1, 2, 3}) {
    trace.span(track, trace.label("work"), Time{start}, Time{start + 5});
  }
  CHECK(events_of(json::parse(trace.to_json(Time{2})), "X").size() == 2);
  CHECK(events_of(json::parse(trace.to_json(Time{4})), "X").empty());
}

TEST_CASE("a name with quotes, backslashes and control characters stays JSON", "[trace]") {
  const std::string name = "scale \"2\" \\ by\n\ttwo \x01 \u00b5";
  TraceRecorder trace;
  trace.span(trace.track(0, name), trace.label(name), Time{0}, Time{1});
  const json parsed = json::parse(trace.to_json());
  CHECK(events_of(parsed, "X").front().at("name") == name);
  CHECK(events_of(parsed, "M").back().at("args").at("name") == name);
}

TEST_CASE("a span says how many bytes its text speaks of", "[trace]") {
  TraceRecorder trace;
  trace.span(trace.track(0, "link"), trace.label("64 B", 64), Time{0}, Time{1});
  trace.span(trace.track(0, "link"), trace.label("gemm"), Time{1}, Time{2});
  const auto spans = events_of(json::parse(trace.to_json()), "X");
  CHECK(spans.at(0).at("args").at("bytes") == 64);
  CHECK(!spans.at(1).contains("args"));
}

TEST_CASE("a unit and a text are found again", "[trace]") {
  TraceRecorder trace;
  CHECK(trace.track(0, "a") == trace.track(0, "a"));
  CHECK(trace.track(0, "a") != trace.track(1, "a"));
  CHECK(trace.track(0, "a") != trace.track(0, "b"));
  CHECK(trace.label("a") == trace.label("a"));
  CHECK(trace.label("a") != trace.label("b"));
}

TEST_CASE("spans that overlap go to lanes, those that touch do not", "[trace]") {
  TraceRecorder trace;
  const auto add = [&](std::int64_t start, std::int64_t end) {
    trace.span(trace.track(0, "load"), trace.label("x"), Time{start}, Time{end});
  };
  add(0, 10);
  add(10, 20);
  add(15, 25);
  add(20, 30);
  add(16, 40);
  const json parsed = json::parse(trace.to_json());
  std::vector<std::string> lanes;
  for (const json& track : events_of(parsed, "M")) {
    if (track.at("name") == "thread_name") lanes.push_back(track.at("args").at("name"));
  }
  CHECK(lanes == std::vector<std::string>{"load", "load #2", "load #3"});
  CHECK(check_no_overlap(parsed) == 5);
}

TEST_CASE("random spans never overlap in a lane", "[trace][random]") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    TraceRecorder trace;
    for (int i = 0; i < 200; ++i) {
      const Time start{random() % 1000};
      trace.span(trace.track(0, "unit"), trace.label("x"), start,
                 start + Time{static_cast<std::int64_t>(random() % 100)});
    }
    CHECK(check_no_overlap(json::parse(trace.to_json())) == 200);
  }
}

TEST_CASE("every send of a run has an arrow to its receive, and tracks never overlap",
          "[trace][machine]") {
  MachineUnderTest dut(overhead_topology(), {.data = false, .trace = true});
  ExchangeProgram::connect(dut.machine);
  ExchangeProgram program(dut.machine);
  program.launch();
  dut.machine.engine().run();
  REQUIRE(program.is_done());

  const json trace = json::parse(dut.machine.trace()->to_json());
  CHECK(check_no_overlap(trace) == dut.machine.trace()->span_count());
  std::map<std::int64_t, std::int64_t> begins;
  std::map<std::int64_t, std::int64_t> ends;
  for (const json& arrow : events_of(trace, "s")) begins[arrow.at("id")] = ps(arrow.at("ts"));
  for (const json& arrow : events_of(trace, "f")) ends[arrow.at("id")] = ps(arrow.at("ts"));
  CHECK(begins.size() == 12);  // six messages each way
  CHECK(ends.size() == 12);
  for (const auto& [id, begin] : begins) CHECK(ends.at(id) > begin);
  // An arrow begins and ends inside a span of its own track.
  for (const char* phase : {"s", "f"}) {
    for (const json& arrow : events_of(trace, phase)) {
      const auto holds = [&](const json& span) {
        return span.at("tid") == arrow.at("tid") && span.at("pid") == arrow.at("pid") &&
               ps(span.at("ts")) == ps(arrow.at("ts"));
      };
      CHECK(std::ranges::any_of(events_of(trace, "X"), holds));
    }
  }
}

TEST_CASE("a run that is cut short leaves no spans of the time after", "[trace][machine]") {
  for (int steps = 0; steps < 120; steps += 3) {
    MachineUnderTest dut(overhead_topology(), {.data = false, .trace = true});
    ExchangeProgram::connect(dut.machine);
    {
      ExchangeProgram program(dut.machine);
      program.launch();
      for (int i = 0; i < steps; ++i) dut.machine.engine().step();
    }
    dut.machine.abandon_work_under_way();
    const std::int64_t now = dut.now().count();
    for (const json& span : events_of(json::parse(dut.machine.trace()->to_json()), "X")) {
      CHECK(ps(span.at("ts")) + ps(span.at("dur")) <= now);
    }
    ExchangeProgram program(dut.machine);
    program.launch();
    dut.machine.engine().run();
    check_no_overlap(json::parse(dut.machine.trace()->to_json()));
  }
}

TEST_CASE("a trace of the same run is the same text", "[trace][determinism]") {
  const auto trace_of_a_run = [] {
    MachineUnderTest dut(overhead_topology(), {.trace = true});
    ExchangeProgram::connect(dut.machine);
    ExchangeProgram program(dut.machine);
    program.launch();
    dut.machine.engine().run();
    return dut.machine.trace()->to_json();
  };
  CHECK(trace_of_a_run() == trace_of_a_run());
}

}  // namespace kernbench::sim::trace_recorder_test
