// fifo: what goes in comes out, once and in order; `level` and the ends tell the truth; an offer
// stands until it is taken. One item, chosen by the solver among all that ever go in, is followed
// by its place in the queue: if each chosen item comes out at its own place, none is lost, doubled
// or passed by another.
module formal_fifo (
    input logic clk,
    input logic rst,
    input logic s_valid,
    input logic [WIDTH-1:0] s_item,
    input logic m_ready,
    input logic choose // follow the item that goes in now
);
  localparam int WIDTH = 2, DEPTH_LOG2 = 2;
  logic s_ready, m_valid;
  logic [WIDTH-1:0] m_item;
  logic [DEPTH_LOG2:0] level;
  fifo #(.WIDTH(WIDTH), .DEPTH_LOG2(DEPTH_LOG2)) dut (.clk, .rst, .s_valid, .s_ready, .s_item, .m_valid, .m_ready, .m_item, .level);

  logic begun = 1'b0;
  logic followed, was_offered, was_waiting, waited_on;
  logic [DEPTH_LOG2+1:0] inside, ahead; // items in the queue; of them, those before the followed one
  logic [WIDTH-1:0] item, was_item;
  logic put, got;
  assign put = s_valid && s_ready;
  assign got = m_valid && m_ready;
  always_ff @(posedge clk) begin
    begun <= 1'b1;
    was_offered <= !rst && m_valid && !m_ready;
    was_waiting <= !rst && inside != '0 && !m_valid;
    waited_on <= !rst && was_waiting && !m_valid;
    was_item <= m_item;
    if (rst) begin
      inside <= '0;
      followed <= 1'b0;
    end else begin
      inside <= inside + {3'b0, put} - {3'b0, got};
      if (put && choose && !followed) begin
        followed <= 1'b1;
        item <= s_item;
        ahead <= inside - {3'b0, got};
      end else if (followed && got) begin
        if (ahead == '0) followed <= 1'b0;
        ahead <= ahead - 1'b1;
      end
    end
  end

  always_comb begin
    assume (begun || rst);
    if (begun && !rst) begin
      if (followed && m_valid && ahead == '0) comes_out_as_it_went_in : assert (m_item == item);
      if (inside == '0) nothing_comes_from_an_empty_queue : assert (!m_valid);
      if (waited_on) comes_out_in_three_clocks : assert (m_valid);
      if (was_offered) offer_stands : assert (m_valid && m_item == was_item);
      level_is_what_is_not_at_the_output : assert ({1'b0, level} == inside - {3'b0, m_valid});
      takes_while_there_is_room : assert (s_ready == (level != (DEPTH_LOG2 + 1)'(1 << DEPTH_LOG2)));
      holds_no_more_than_it_can : assert (level <= (DEPTH_LOG2 + 1)'(1 << DEPTH_LOG2));
    end
  end
endmodule
