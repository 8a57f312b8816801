// The firewall: up to 16 rules, each a value and a mask for source, destination, ports and
// protocol of an IP packet (so prefixes, ports and protocols, or any bits of them); the first that
// matches says accept or drop, and what no rule matches gets the table's default. A rule that asks
// for ports matches no later fragment. Once there are rules, or the default is to drop, a packet
// whose headers are not all there is dropped. A rule is 16 words: 0 to 1 source, 2 to 3 its mask, 4
// to 5 destination, 6 to 7 its mask (IPv4 in the first four bytes), 8 ports (source in 15:0) and
// their mask, 9 protocol in 7:0, its mask in 15:8, bit 16 accept, bit 17 IPv4, bit 18 IPv6; 10 to
// 15 mean nothing. All but these bits as bytes of the packet. Looks at a rule a clock once the
// frame has been shown (look_align).
module filter (
    input  logic        clk,
    input  logic        rst,
    input  logic        rule_clear,  // no rules, until they are written anew, in order
    input  logic        rule_accept, // with rule_clear: the default
    input  logic        rule_write,
    input  logic [3:0]  rule_number,
    input  logic [3:0]  rule_word, // a rule counts from its word 9 on
    input  logic [63:0] rule_data,
    input  logic        start, // before the first word
    input  logic        a_valid,
    input  logic [63:0] a_data,
    input  logic [3:0]  a_bytes,
    input  logic [10:0] a_word,
    input  logic        finished, // after the last word
    output logic        done,     // pulse
    output logic        accept,   // from done to start
    output logic [7:0]  rule,     // 255: the default, 254: the headers are not all there
    output logic [7:0]  protocol,
    output logic [15:0] port // destination, as bytes of the packet
);
  localparam int WORDS = 10;
  localparam logic [7:0] DEFAULT = 255, UNSOUND = 254;

  // ---- the packet
  logic         version4, version6, has_ports, sound;
  logic [127:0] source, destination;
  logic [31:0]  ports;
  assign port = ports[31:16];
  ip_fields u_fields (
      .clk, .start, .a_valid, .a_data, .a_bytes, .a_word, .version4, .version6, .source, .destination, .protocol, .ports, .has_ports,
      .sound);

  // ---- the rules, a word of each in a RAM of its own
  logic [WORDS-1:0][63:0] r;
  logic [3:0] at, read, compared; // read: the rule in `r`; compared: that of `fits`
  logic [4:0] rules;
  logic       by_default, running, reads, compare;
  for (genvar w = 0; w < WORDS; w++) begin : g_word
    (* no_rw_check *) logic [63:0] mem[0:15]; // not written while rules are compared
    always_ff @(posedge clk) begin
      if (rule_write && rule_word == 4'(w)) mem[rule_number] <= rule_data;
      r[w] <= mem[at];
    end
  end

  // The parts of a rule, each in a register, for all of it is some 300 bits.
  logic [9:0] fits;
  logic       accepts, match, last;
  always_ff @(posedge clk) begin
    for (int w = 0; w < 4; w++) begin
      fits[w] <= ((source[32*w +: 32] ^ r[w/2][32*(w%2) +: 32]) & r[2 + w/2][32*(w%2) +: 32]) == '0;
      fits[4 + w] <= ((destination[32*w +: 32] ^ r[4 + w/2][32*(w%2) +: 32]) & r[6 + w/2][32*(w%2) +: 32]) == '0;
    end
    fits[8] <= r[8][63:32] == '0 || (has_ports && ((ports ^ r[8][31:0]) & r[8][63:32]) == '0);
    fits[9] <= ((r[9][17] && version4) || (r[9][18] && version6)) && ((protocol ^ r[9][7:0]) & r[9][15:8]) == '0;
    accepts <= r[9][16];
  end
  assign match = fits == '1 && rules != '0;
  assign last = {1'b0, compared} + 5'd1 >= rules;

  always_ff @(posedge clk) begin
    done <= 1'b0;
    if (rst) begin
      rules <= '0;
      by_default <= 1'b1;
      running <= 1'b0;
      reads <= 1'b0;
      compare <= 1'b0;
    end else begin
      if (rule_clear) {rules, by_default} <= {5'd0, rule_accept};
      else if (rule_write && rule_word == 4'd9) rules <= {1'b0, rule_number} + 5'd1;
      reads <= running;
      read <= at;
      compare <= reads;
      compared <= read;
      if (finished) begin
        accept <= by_default;
        rule <= DEFAULT;
        running <= rules != '0 || !by_default;
        done <= rules == '0 && by_default;
        at <= '0;
      end else if (running || reads || compare) begin
        at <= at + 1'b1;
        if (compare && !sound) begin
          accept <= 1'b0;
          rule <= UNSOUND;
        end else if (compare && match) begin
          accept <= accepts;
          rule <= {4'b0, compared};
        end
        if (compare && (!sound || match || last)) begin
          running <= 1'b0;
          reads <= 1'b0;
          compare <= 1'b0;
          done <= 1'b1;
        end
      end
    end
  end
endmodule
