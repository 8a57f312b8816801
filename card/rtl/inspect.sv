// Watches a frame on its way into the buffer and says what is in it: checksums, the filter's
// verdict. `look_*`, `fill` and `off` hold from the first word to the verdict; `done` from the
// verdict to the next frame.
module inspect (
    input  logic        clk,
    input  logic        rst,
    input  logic        tap,
    output logic        tap_ready,
    input  logic [63:0] data,
    input  logic        sof,
    input  logic        eof,
    input  logic [3:0]  bytes,
    input  logic        look_ip,
    input  logic        look_udp,
    input  logic        look_signature, // the filter always looks
    input  logic        fill,
    input  logic [13:0] off,
    input  logic        rule_clear,
    input  logic        rule_accept,
    input  logic        rule_write,
    input  logic [3:0]  rule_number,
    input  logic [3:0]  rule_word,
    input  logic [63:0] rule_data,
    input  logic        page_begin, // the signatures' tables; the data is rule_data
    input  logic        page_write,
    input  logic [1:0]  page,
    input  logic [9:0]  page_word,
    output logic        done,
    output logic        ip_right,
    output logic        udp_right,
    output logic        ip_wrong, // there is one, and it is not right
    output logic        udp_wrong,
    output logic        ip_fix, // put ip_fix_value at byte ip_fix_at (even) of the frame
    output logic [13:0] ip_fix_at,
    output logic [15:0] ip_fix_value,
    output logic        udp_fix,
    output logic [13:0] udp_fix_at,
    output logic [15:0] udp_fix_value,
    output logic        accept,
    output logic [7:0]  rule,
    output logic        hit,
    output logic [7:0]  signature
);
  logic        a_valid, finished, start, filter_done, is_ip, is_udp;
  logic [63:0] a_data;
  logic [3:0]  a_bytes;
  logic [10:0] a_word;
  logic [6:0]  udp_at;
  logic [7:0]  protocol;
  logic [15:0] port;
  // A register before all observers; only the old verdict goes at once.
  logic        t_valid, t_sof, t_eof, begins;
  logic [63:0] t_data;
  logic [3:0]  t_bytes;
  assign begins = tap && sof;
  assign start = t_valid && t_sof;
  always_ff @(posedge clk) begin
    t_valid <= tap && !rst;
    {t_sof, t_eof, t_bytes, t_data} <= {sof, eof, bytes, data};
  end
  look_align u_align (.clk, .rst, .tap(t_valid), .data(t_data), .sof(t_sof), .eof(t_eof), .bytes(t_bytes), .off, .a_valid,
      .a_data, .a_bytes, .a_word, .finished);
  checksum u_checksum (
      .clk, .start, .a_valid, .a_data, .a_bytes, .a_word, .is_ip, .is_udp, .ip_right, .udp_right, .ip_sum(ip_fix_value),
      .udp_sum(udp_fix_value), .udp_at);
  filter u_filter (
      .clk, .rst, .rule_clear, .rule_accept, .rule_write, .rule_number, .rule_word, .rule_data, .start, .a_valid, .a_data, .a_bytes,
      .a_word, .finished(filter_begins), .done(filter_done), .accept, .rule, .protocol, .port);

  // The frame's last word may reach the observers together with `finished`.
  logic filter_begins, scan_done;
  always_ff @(posedge clk) filter_begins <= finished;

  assign ip_wrong = look_ip && is_ip && !ip_right;
  assign udp_wrong = look_udp && is_udp && !udp_right;
  assign ip_fix = look_ip && fill && is_ip && !off[0];
  assign ip_fix_at = off + 14'd10;
  assign udp_fix = look_udp && fill && is_udp && !off[0];
  assign udp_fix_at = off + {7'b0, udp_at};

  // The checksums stand seven clocks after the last word.
  logic       filtered;
  logic [6:0] since;
  signature u_signature (
      .clk, .rst, .page_begin, .page_write, .page, .page_word, .page_data(rule_data), .enable(look_signature), .start, .a_valid, .a_data, .a_bytes, .finished, .protocol, .port, .ready(tap_ready), .done(scan_done),
      .hit, .number(signature));
  assign done = filtered && scan_done && since[6];
  always_ff @(posedge clk) begin
    if (rst || begins) begin
      filtered <= 1'b0;
      since <= '0;
    end else begin
      since <= {since[5:0], finished || since[0]};
      if (filter_done) filtered <= 1'b1;
    end
  end
endmodule
